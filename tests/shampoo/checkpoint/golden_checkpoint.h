// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "grouping/hash.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {

/// The trainer of the golden checkpoints: every layout of slots, masters of bfloat16 values,
/// counters that are not 0. What a golden checkpoint holds follows from names, not from training.
inline Trainee golden_trainee() {
  Recipe root = quick_recipe();
  root.averaging = Momentum{};
  root.refresh.staggered = true;
  Recipe soap = quick_recipe();
  soap.preconditioner = EigenvalueCorrected{};
  soap.grafting = std::nullopt;
  soap.averaging = ScheduleFree{};
  Recipe eigen = quick_recipe();
  eigen.preconditioner = Eigendecomposed{};
  eigen.grafting = AdaGrad{};
  return {.shapes = {{9, 8}, {6, 5}, {7, 4}, {13}, {3, 4}, {2, 3, 4}},
          .recipes = {root, soap, eigen},
          .narrow = true};
}

inline constexpr int golden_ranks = 2, golden_steps = 7;

inline bool is_averaged(const ParameterState& parameter) {
  return std::ranges::any_of(parameter.recipe, [](const RecipeField& field) {
    return field == RecipeField{"averaging", "schedule_free"};
  });
}

/// What the trainer itself saves, of one rank.
struct GoldenUserState {
  std::vector<float> table{0.5F, -1, 0.25F, 1e-30F, 3, 4};
  std::vector<std::uint8_t> generator;
  explicit GoldenUserState(int rank)
      : generator(static_cast<std::size_t>(rank) + 3, static_cast<std::uint8_t>(rank + 1)) {}
  UserState of_rank(int rank) {
    return {
        .tensors = {{"table", {2, 3}, table.data()},
                    {"generator",
                     {static_cast<std::int64_t>(generator.size())},
                     generator.data(),
                     Sharding::per_rank}},
        .values = {{"epoch", std::int64_t{-3}}, {"loss", 0.1}, {"phase", std::string("a\n\u00e9")}},
        .rank_values = {{"position", std::int64_t{100} + rank}}};
  }
};

/// The state of such a trainer with numbers that follow from the names of its tensors.
inline StateDict golden_state(StateDict state) {
  state.progress = {.attempts = golden_steps + 1, .taken = golden_steps, .skipped_in_a_row = 1};
  for (StateTensor& tensor : state.tensors) {
    const auto seed = static_cast<int>(grouping::hash(tensor.name()) % 89);
    for (std::size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) {
      const float number = static_cast<float>(seed + static_cast<int>(i % 31)) / 64;
      std::memcpy(tensor.bytes.data() + i * sizeof(float), &number, sizeof(float));
    }
  }
  for (ParameterState& parameter : state.parameters) {
    parameter.steps = golden_steps;
    if (is_averaged(parameter)) parameter.averaging_weight_sum = 0.375;
    for (std::size_t b = 0; b < parameter.blocks.size(); ++b)
      parameter.blocks[b].failures = static_cast<int>(b % 2);
  }
  return state;
}

}  // namespace shampoo::test
