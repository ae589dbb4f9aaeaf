// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

/// An exception as a value, so that it can be thrown on other ranks, too.
struct Fault {
  enum class Kind : char {
    argument = 'a',
    logic = 'l',
    numerical = 'n',
    communication = 'c',
    device = 'd',
    other = 'o'
  };
  Kind kind = Kind::communication;
  std::string message;
};

/// The exception that is being handled.
Fault caught();

/// Throws std::invalid_argument, std::logic_error, NumericalError, CommunicationError, DeviceError
/// or std::runtime_error.
[[noreturn]] void raise(const Fault& fault);

}  // namespace shampoo
