// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "distributor/launcher/descendants.h"
#include "distributor/launcher/signal_queue.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

namespace {

/// Reaps children; the exit code of `agent` once it is among them.
std::optional<int> reap(pid_t agent) {
  std::optional<int> code;
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
    if (info.si_pid == agent)
      code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    info = {};
  }
  return code;
}

/// Children that this process had before it became a launcher, such as those of the shell that it
/// was, and what is below them.
std::set<pid_t> present_descendants() {
  std::set<pid_t> result;
  for (const Descendant& descendant : descendants_of(getpid())) result.insert(descendant.pid);
  return result;
}

void kill_descendants(const std::set<pid_t>& spared) {
  constexpr auto longest = std::chrono::seconds(10);  // one in a system call may not end at all
  const auto end = std::chrono::steady_clock::now() + longest;
  while (std::chrono::steady_clock::now() < end) {
    reap(-1);
    const std::vector<Descendant> left = descendants_of(getpid(), spared);
    if (left.empty()) return;
    for (const Descendant& descendant : left) kill(descendant.pid, SIGKILL);
    poll(nullptr, 0, 10);
  }
}

int watch(SignalQueue& queue, pid_t agent, const std::set<pid_t>& spared) {
  for (;;) {
    if (const auto code = reap(agent)) {
      kill_descendants(spared);
      return *code;
    }
    pollfd ready{queue.descriptor(), POLLIN, 0};
    poll(&ready, 1, -1);
    while (const auto signal = queue.next())
      if (signal->number != SIGCHLD) kill(agent, signal->number);
  }
}

}  // namespace

int run_guarded(std::span<const int> signals, const std::function<int(int guard_gone)>& agent) {
  SignalQueue queue(signals);
  const std::set<pid_t> spared = present_descendants();
  adopt_orphans();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  UniqueFd readable(ends[0]), writable(ends[1]);
  std::cout.flush();
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    writable.reset();
    setsid();  // what a terminal sends to its foreground group comes once, from the guard
    const int code = agent(readable.get());
    std::cout.flush();
    std::fflush(nullptr);
    _exit(code);
  }
  readable.reset();
  return watch(queue, pid, spared);
}

}  // namespace shampoo::launcher
