// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>
#include <span>
#include <string>

#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// "SIGTERM"; "signal 99" where it has no name.
std::string signal_name(int signal);

/// Signals as a file descriptor to poll; they stay blocked for the calling thread and those it
/// starts during the lifetime of this object.
class SignalQueue {
 public:
  /// SIGCHLD is always among them. An ignored SIGHUP stays ignored, as nohup wants it.
  explicit SignalQueue(std::span<const int> signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int descriptor() const { return descriptor_.get(); }
  /// The number of the next pending signal. Does not wait.
  std::optional<int> next();

 private:
  sigset_t before_{};
  UniqueFd descriptor_;
};

}  // namespace shampoo::launcher
