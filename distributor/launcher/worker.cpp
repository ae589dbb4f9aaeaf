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
#include <stdexcept>
#include <system_error>

#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

namespace {

/// For execve(). Borrows the texts.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
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

/// In the child. Only calls that are safe in a signal handler are allowed, as other threads may
/// have held any lock.
void prepare(const WorkerStreams& streams, const DescriptorLimit& limit, pid_t parent) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the prctl
  restore_signals();
  if (streams.out) dup2(streams.out.get(), STDOUT_FILENO);
  if (streams.error) dup2(streams.error.get(), STDERR_FILENO);
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr unsigned close_on_exec = 4;  // CLOSE_RANGE_CLOEXEC; kernels before 5.11 refuse
  syscall(SYS_close_range, 3U, ~0U, close_on_exec);
}

/// The child's errno where it could not execute the program, otherwise 0.
int read_error(const UniqueFd& pipe) {
  int error = 0;
  ssize_t count = 0;
  do count = read(pipe.get(), &error, sizeof error);
  while (count < 0 && errno == EINTR);
  return count == sizeof error ? error : 0;
}

}  // namespace

DescriptorLimit raise_descriptor_limit() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit raised{before.rlim_max, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

pid_t start_worker(const std::vector<std::string>& command, const Environment& environment,
                   const WorkerStreams& streams, const DescriptorLimit& limit) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  UniqueFd readable(ends[0]), writable(ends[1]);
  std::vector<std::string> words = command, variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const std::vector<char*> word_pointers = pointers(words);
  const std::vector<char*> variable_pointers = pointers(variables);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    prepare(streams, limit, parent);
    execvpe(word_pointers[0], word_pointers.data(), variable_pointers.data());
    const int why = errno;
    [[maybe_unused]] const ssize_t written = write(writable.get(), &why, sizeof why);
    _exit(127);
  }
  writable.reset();
  const int error = read_error(readable);
  if (error == 0) return pid;
  waitpid(pid, nullptr, 0);
  const std::string& program = command[0];
  const bool is_here = program.find('/') == std::string::npos && access(program.c_str(), X_OK) == 0;
  throw std::runtime_error("cannot execute " + program + ": " +
                           std::generic_category().message(error) +
                           (is_here ? "; did you mean ./" + program + "?" : ""));
}

}  // namespace shampoo::launcher
