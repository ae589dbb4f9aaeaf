// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shampoo {

/// A rank is gone, stalled or disagrees. An optimizer whose message says that it can no longer be
/// used says so from then on.
class CommunicationError : public std::runtime_error {
 public:
  explicit CommunicationError(const std::string& message, std::vector<int> missing_ranks = {})
      : std::runtime_error(message), missing_ranks_(std::move(missing_ranks)) {}

  /// Ranks that are known not to have taken part; empty where that is not known.
  const std::vector<int>& missing_ranks() const { return missing_ranks_; }

 private:
  std::vector<int> missing_ranks_;
};

}  // namespace shampoo
