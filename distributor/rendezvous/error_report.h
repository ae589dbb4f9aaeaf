// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shampoo {

/// Tells the launcher why this process is about to end: call it where main() catches an exception,
/// then return something other than 0. torchrun and shampoorun print the message of the process
/// that failed first, and act on it.
///
/// Writes the file that TORCHELASTIC_ERROR_FILE names, all of it or nothing; does nothing where
/// that is not set or the file cannot be written. Bytes that are no UTF-8 become "?".
void report_error(std::string_view message) noexcept;

}  // namespace shampoo
