// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/worker.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>
#include <vector>

#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

namespace {

/// All that a new process needs, prepared before the fork: after it, only calls that are safe in a
/// signal handler are allowed, as other threads may have held any lock.
struct Prepared {
  const char* path;
  char* const* arguments;
  char* const* environment;
  int out, error;
  int complaints;
  pid_t parent;
  DescriptorLimit limit;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

void restore_signals() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) sigaction(signal, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become(const Prepared& prepared) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.parent) _exit(1);  // it died before the prctl
  restore_signals();
  setrlimit(RLIMIT_NOFILE, &prepared.limit);
  const bool streams = (prepared.out < 0 || dup2(prepared.out, STDOUT_FILENO) >= 0) &&
                       (prepared.error < 0 || dup2(prepared.error, STDERR_FILENO) >= 0);
  constexpr unsigned close_on_exec = 4;  // CLOSE_RANGE_CLOEXEC; kernels before 5.11 refuse
  syscall(SYS_close_range, 3U, ~0U, close_on_exec);
  if (streams) execve(prepared.path, prepared.arguments, prepared.environment);
  const int why = errno;
  [[maybe_unused]] const ssize_t written = write(prepared.complaints, &why, sizeof why);
  _exit(127);
}

/// 0, or the child's errno where it could not execute the program.
int complaint(const UniqueFd& pipe) {
  int why = 0;
  ssize_t got = 0;
  do got = read(pipe.get(), &why, sizeof why);
  while (got < 0 && errno == EINTR);
  return got == sizeof why ? why : 0;
}

}  // namespace

pid_t start_worker(const Program& program, const Environment& environment,
                   const WorkerStreams& streams, const DescriptorLimit& limit) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  UniqueFd readable(ends[0]), writable(ends[1]);
  std::vector<std::string> arguments = program.arguments;
  std::vector<std::string> variables = environment_block(environment);
  const std::vector<char*> argument_pointers = pointers(arguments);
  const std::vector<char*> variable_pointers = pointers(variables);
  const Prepared prepared{program.path.c_str(),
                          argument_pointers.data(),
                          variable_pointers.data(),
                          streams.out.get(),
                          streams.error.get(),
                          writable.get(),
                          getpid(),
                          limit};
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) become(prepared);
  writable.reset();
  if (const int why = complaint(readable)) {
    waitpid(pid, nullptr, 0);
    throw StartError(program.path + ": " + std::generic_category().message(why));
  }
  return pid;
}

}  // namespace shampoo::launcher
