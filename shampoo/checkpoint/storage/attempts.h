// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace shampoo::checkpoint {

/// Things to be done of which each is tried, also after one that throws.
class Attempts {
 public:
  /// Returns false if it threw.
  template <typename Work>
  bool operator()(const Work& work) {
    try {
      work();
      return true;
    } catch (...) {
      if (!first_error_) first_error_ = std::current_exception();
      return false;
    }
  }

  /// Throws the first error, if there was one.
  void finish() const {
    if (first_error_) std::rethrow_exception(first_error_);
  }

 private:
  std::exception_ptr first_error_;
};

}  // namespace shampoo::checkpoint
