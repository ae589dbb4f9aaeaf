// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

/// An exception as a value, so that it can be thrown on other ranks, too.
struct TransferableError {
  enum class Kind : char {
    argument = 'a',
    logic = 'l',
    numerical = 'n',
    communication = 'c',
    device = 'd',
    checkpoint = 'k',
    system = 's',
    other = 'o'
  };
  Kind kind = Kind::communication;
  std::string message;
  int code = 0;  ///< errno of a system fault
};

/// A fault as a text that is not empty, for other ranks.
std::string serialize(const TransferableError& fault);
TransferableError deserialize_error(const std::string& words);

/// The exception that is being handled.
TransferableError current_error();

/// Throws std::invalid_argument, std::logic_error, NumericalError, CommunicationError, DeviceError,
/// CheckpointError, std::system_error with the code, or std::runtime_error.
[[noreturn]] void rethrow(const TransferableError& fault);

}  // namespace shampoo
