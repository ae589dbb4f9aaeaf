// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace shampoo {

/// A program run by the test. Killed with its process group when it is destroyed.
class Process {
 public:
  /// `words` begin with the program's path. The environment is the test's, without what launchers
  /// set, and with `variables`.
  Process(const std::vector<std::string>& words,
          const std::map<std::string, std::string>& variables);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Waits for the end, at most so long. Exit code, 128 + signal, or -1: still running.
  int wait(std::chrono::seconds longest = std::chrono::seconds(60));
  /// What it wrote, standard output and error together.
  std::string output() const;

 private:
  pid_t process_ = -1;
  int output_ = -1;
  bool ended_ = false;
  int code_ = -1;
};

/// One that was free a moment ago.
int free_port();

}  // namespace shampoo
