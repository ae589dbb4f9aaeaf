// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string_view>

#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// This process's end of a stream to the user, which others write to as well. Never blocks, and
/// leaves the others' way of writing as it is.
class ConsoleEnd {
 public:
  /// `descriptor` is borrowed.
  explicit ConsoleEnd(int descriptor);

  /// How many bytes it took: whole portions that others do not cut, 0 where it is full for now.
  std::size_t write(std::string_view text);
  /// Whether nobody will ever read.
  bool gone() const { return gone_; }
  /// To poll for POLLOUT.
  int descriptor() const { return own_ ? own_.get() : shared_; }

 private:
  int shared_;
  UniqueFd own_;
  bool socket_ = false, waits_ = false, gone_ = false;
};

}  // namespace shampoo::launcher
