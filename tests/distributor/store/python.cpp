// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/store/python.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

namespace shampoo::test {

using namespace std::chrono_literals;

Python::Python(const std::string& interpreter, std::vector<std::string> arguments) {
  int in[2], out[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0 ||
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  const store::Socket its_input(in[0]), its_output(out[0]);
  input_ = store::Socket(in[1]);
  output_ = store::Socket(out[1]);

  arguments.insert(arguments.begin(), interpreter);
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, its_input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, its_output.get(), STDOUT_FILENO);
  const int error =
      ::posix_spawn(&pid_, interpreter.c_str(), &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_ = -1;
    throw std::system_error(error, std::generic_category(), interpreter);
  }
}

Python::~Python() {
  finish();
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string Python::read_line() {
  std::string line;
  char byte = 0;
  while (true) {
    pollfd polled{output_.get(), POLLIN, 0};
    if (::poll(&polled, 1, 60'000) <= 0 || ::read(output_.get(), &byte, 1) <= 0) return line;
    if (byte == '\n') return line;
    line.push_back(byte);
  }
}

int Python::finish() {
  input_.reset();
  const store::Deadline end = store::after(60s);
  while (pid_ > 0 && store::Clock::now() < end) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    std::this_thread::sleep_for(5ms);
  }
  return -1;
}

}  // namespace shampoo::test
