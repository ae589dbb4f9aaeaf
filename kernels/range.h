// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/backend.h"

namespace shampoo::kernels {

/// Names, for profilers, the work that is queued during its lifetime.
class Range {
 public:
  Range(Backend& backend, const char* name) : backend_(backend) { backend_.begin_range(name); }
  ~Range() { backend_.end_range(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  /// Ends the current name and begins another.
  void next(const char* name) {
    backend_.end_range();
    backend_.begin_range(name);
  }

 private:
  Backend& backend_;
};

}  // namespace shampoo::kernels
