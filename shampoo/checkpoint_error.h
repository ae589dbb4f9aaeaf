// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace shampoo {

/// A broken, incomplete or foreign checkpoint; the message names file, tensor and offset. Errors of
/// the system (a full disk, a missing file) are std::system_error instead.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace shampoo
