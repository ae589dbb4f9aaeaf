// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace shampoo {

/// An exception as a value that can be sent to other ranks and thrown there.
struct TransferableError {
  enum class Kind : std::uint8_t {
    argument,
    logic,
    numerical,
    communication,
    device,
    checkpoint,
    system,
    other
  };
  Kind kind = Kind::communication;
  std::string message;
  int code = 0;  ///< errno of a system error
};

template <typename Visitor>
void for_each_field(Visitor&& visit, TransferableError& error) {
  visit("kind", error.kind);
  visit("message", error.message);
  visit("code", error.code);
}

/// Converts the exception that is being handled.
TransferableError current_error();

/// Throws std::invalid_argument, std::logic_error, NumericalError, CommunicationError, DeviceError,
/// CheckpointError, std::system_error with the code, or std::runtime_error.
[[noreturn]] void rethrow(const TransferableError& error);

}  // namespace shampoo
