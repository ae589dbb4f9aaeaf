// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

/// A launcher in a process of its own, and all that runs below it.
class LaunchedJob {
 public:
  /// Starts it on launched_worker.cpp's program, with what that is to do.
  LaunchedJob(std::vector<std::string> flags, std::vector<std::string> actions,
              const std::string& program = "");
  /// Any launcher: its path, and all its arguments.
  explicit LaunchedJob(std::vector<std::string> command);
  /// Kills what is left.
  ~LaunchedJob();
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const;

  /// The exit code, or 128 + signal; -1 after a long time.
  int wait();
  /// What it and its workers wrote so far.
  std::string output() const;
  /// Waits a long time for `text` in the output, as long as the launcher lives; whether it came.
  bool prints(const std::string& text) const;
  /// How often `text` is in the output.
  int count(const std::string& text) const;

  /// All processes of the job that live: the marker in their environment tells.
  std::vector<pid_t> processes() const;
  /// Waits a long time until none of them lives; whether that came.
  bool leaves_nothing() const;

 private:
  void start(std::vector<std::string>& command);

  shampoo::test::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
  pid_t pid_ = -1;
  std::optional<int> code_;
};

std::vector<pid_t> children_of(pid_t parent);

/// Polls, for a long time; whether the condition came true.
bool comes_true(const std::function<bool()>& condition);

/// One that was free a moment ago.
std::string free_port();

/// Takes a port of this machine and serves nothing there.
class Listener {
 public:
  Listener();
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::string port() const;
  /// Waits a long time until somebody has connected; whether that came.
  bool is_found() const;
  /// Frees the port.
  void close();

 private:
  int socket_ = -1;
};

}  // namespace shampoo::launcher::test
