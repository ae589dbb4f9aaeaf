// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo {

/// What is timed, each at most once in a step, or in one virtual group, or in one of its chunks.
enum class Phase : std::uint8_t {
  // of the step
  scan,
  vote,
  exchange,
  apply,
  // of a virtual group
  factors,
  roots,
  // of a chunk
  filter,
  precondition,
  update
};

inline constexpr std::size_t step_phases = 4, group_phases = 5;

constexpr const char* name_of(Phase phase) {
  constexpr const char* names[] = {"scan",  "vote",   "exchange",     "apply", "factors",
                                   "roots", "filter", "precondition", "update"};
  return names[static_cast<std::size_t>(phase)];
}

/// Place among all phases of a step with some virtual groups, or chunks of them; `group` matters to
/// the phases of one alone.
constexpr std::size_t phase_index(Phase phase, std::size_t group) {
  const auto p = static_cast<std::size_t>(phase);
  return p < step_phases ? p : p + group * group_phases;
}

constexpr Phase phase_at(std::size_t index) {
  return static_cast<Phase>(
      index < step_phases ? index : step_phases + (index - step_phases) % group_phases);
}

}  // namespace shampoo
