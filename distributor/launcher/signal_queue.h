// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <span>

#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

struct Signal {
  int number = 0;
  pid_t sender = 0;  ///< 0: the kernel, or a process that this one cannot see
};

/// Takes signals as a file descriptor to poll; they stay blocked for the calling thread and those
/// it starts, until this is gone.
class SignalQueue {
 public:
  /// SIGCHLD comes on top. An ignored SIGHUP stays ignored: that is what nohup asks for.
  explicit SignalQueue(std::span<const int> signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int descriptor() const { return descriptor_.get(); }
  /// Does not wait.
  std::optional<Signal> next();

 private:
  sigset_t before_{};
  UniqueFd descriptor_;
};

}  // namespace shampoo::launcher
