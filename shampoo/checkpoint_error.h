// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace shampoo {

/// A checkpoint is broken, incomplete or not one: the message names file, tensor and offset. What
/// the system refuses (a full disk, a missing file) is a std::system_error instead.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace shampoo
