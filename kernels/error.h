// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace shampoo {

/// The device, or a library that drives it, failed.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The arithmetic failed: a decomposition that kept failing, gradients that stayed non-finite.
class NumericalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace shampoo
