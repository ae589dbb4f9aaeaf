// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

#include "distributor/system/unique_fd.h"

namespace shampoo {

/// Wakes up who polls its descriptor, from any thread.
class Event {
 public:
  /// Throws std::system_error.
  Event() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!descriptor_) throw std::system_error(errno, std::generic_category(), "eventfd");
  }

  /// Readable from set() to clear().
  int descriptor() const { return descriptor_.get(); }
  void set() const { ::eventfd_write(descriptor_.get(), 1); }
  void clear() const {
    eventfd_t count = 0;
    ::eventfd_read(descriptor_.get(), &count);
  }

 private:
  UniqueFd descriptor_;
};

}  // namespace shampoo
