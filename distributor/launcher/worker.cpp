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

/// Prepared before the fork: after it, only calls that are safe in a signal handler are allowed, as
/// other threads may have held any lock.
struct Prepared {
  char* const* command;
  char* const* environment;
  int out, error;
  int errors;  ///< gets errno where the program cannot be executed
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
  if (streams) execvpe(prepared.command[0], prepared.command, prepared.environment);
  const int why = errno;
  [[maybe_unused]] const ssize_t written = write(prepared.errors, &why, sizeof why);
  _exit(127);
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

pid_t start_worker(const std::vector<std::string>& command, const Environment& environment,
                   const WorkerStreams& streams, const DescriptorLimit& limit) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  UniqueFd readable(ends[0]), writable(ends[1]);
  std::vector<std::string> words = command;
  std::vector<std::string> variables = environment_block(environment);
  const std::vector<char*> word_pointers = pointers(words);
  const std::vector<char*> variable_pointers = pointers(variables);
  const Prepared prepared{word_pointers.data(),
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
  if (const int error = read_error(readable)) {
    waitpid(pid, nullptr, 0);
    const bool is_here =
        command[0].find('/') == std::string::npos && access(command[0].c_str(), X_OK) == 0;
    throw StartError("cannot execute " + command[0] + ": " +
                     std::generic_category().message(error) +
                     (is_here ? "; did you mean ./" + command[0] + "?" : ""));
  }
  return pid;
}

}  // namespace shampoo::launcher
