// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace shampoo {

/// A rank is gone, stalled or disagrees. The optimizer that used the communicator is unusable.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace shampoo
