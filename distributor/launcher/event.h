// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// Wakes up who polls its descriptor, from any thread.
class Event {
 public:
  /// Throws std::system_error.
  Event() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!descriptor_) throw std::system_error(errno, std::generic_category(), "eventfd");
  }

  /// Readable from set() to clear().
  int descriptor() const { return descriptor_.get(); }
  void set() const {
    const std::uint64_t one = 1;
    while (::write(descriptor_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
  void clear() const {
    std::uint64_t count = 0;
    while (::read(descriptor_.get(), &count, sizeof count) < 0 && errno == EINTR) {
    }
  }

 private:
  UniqueFd descriptor_;
};

}  // namespace shampoo::launcher
