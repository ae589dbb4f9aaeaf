// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shampoo/state_dict.h"

namespace shampoo {

/// What to do about an error that a load makes only because it is strict.
inline constexpr const char* strict_hint =
    "LoadOptions::strict = false accepts that, of a checkpoint "
    "CheckpointOptions{.state = {.strict = false}}";

/// What does not fit in a state dict: all of it is said at once.
class LoadFaults {
 public:
  void add(std::string fault) { faults_.push_back(std::move(fault)); }

  /// Throws std::invalid_argument with a line for each fault, up to 20, if there are any, and
  /// behind them one with what is missing and unexpected in the report, unless that is null.
  void throw_if_any(const LoadReport* report) const;

 private:
  std::vector<std::string> faults_;
};

/// Throws std::invalid_argument that names what is missing and unexpected, if anything is.
void require_complete(const LoadReport& report);

}  // namespace shampoo
