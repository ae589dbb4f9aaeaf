// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// "SIGTERM"; "signal 99" where it has no name.
std::string signal_name(int signal);

/// Signals as a file descriptor to poll. From then on they are blocked for the calling thread and
/// those it starts.
class SignalQueue {
 public:
  /// SIGCHLD is always among them. An ignored SIGHUP stays ignored, as nohup wants it.
  explicit SignalQueue(std::span<const int> signals);

  int descriptor() const { return descriptor_.get(); }
  /// The number of the next pending signal. Does not wait.
  std::optional<int> next();

 private:
  UniqueFd descriptor_;
};

}  // namespace shampoo::launcher
