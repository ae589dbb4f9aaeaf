// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <stdexcept>

namespace examples {

/// A command line that makes no sense.
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Of a program that the error ends: 2 for its command line, as of shampoorun, otherwise 1.
inline int exit_status(const std::exception& error) {
  return dynamic_cast<const UsageError*>(&error) != nullptr ? 2 : 1;
}

}  // namespace examples
