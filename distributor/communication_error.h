// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shampoo {

/// A rank is unreachable, stalled or inconsistent with the others. If the message says that the
/// optimizer can no longer be used, every later step throws until a state is loaded.
class CommunicationError : public std::runtime_error {
 public:
  explicit CommunicationError(const std::string& message, std::vector<int> missing_ranks = {})
      : std::runtime_error(message), missing_ranks_(std::move(missing_ranks)) {}

  /// Ranks known not to have responded; empty if unknown.
  const std::vector<int>& missing_ranks() const { return missing_ranks_; }

 private:
  std::vector<int> missing_ranks_;
};

}  // namespace shampoo
