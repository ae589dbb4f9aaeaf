// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "distributor/communicator.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/device/ranks_at.h"
#include "tests/support/read_rates.h"

namespace shampoo::test {

/// What one run on some ranks left behind.
template <typename Scalar>
struct Trained {
  std::vector<std::vector<std::vector<Scalar>>> values;  ///< of each rank
  std::int64_t collectives = 0;                          ///< most in a step, on any rank
  std::int64_t received = 0;                             ///< bytes of a step, all ranks together
  std::vector<std::int64_t> state_bytes;                 ///< of each rank
};

struct Setting {
  std::vector<std::vector<std::int64_t>> shapes = awkward_shapes();
  std::vector<Recipe> recipes = {quick_recipe()};  ///< of group g: recipes[g % size]
  int groups = 3;
  int steps = 7;
  bool merges = true;
  std::optional<std::int64_t> direction_bytes = {};
  /// Tensor t has no gradient in step s > 0 where (s + t) % absent_every == 0.
  int absent_every = 0;
  Place place = Place::cpu;
};

template <typename Scalar>
std::vector<ParameterGroup> groups_of(ToyModel<Scalar>& model, const Setting& setting) {
  std::vector<ParameterGroup> groups(static_cast<std::size_t>(setting.groups));
  for (std::size_t g = 0; g < groups.size(); ++g)
    groups[g] = {.rates = {.learning_rate = 1e-3 * (1 + static_cast<double>(g)),
                           .epsilon = 1e-6,
                           .weight_decay = 0.01 * static_cast<double>(g % 4),
                           .momentum = 0.5},
                 .recipe = setting.recipes[g % setting.recipes.size()]};
  for (ParameterGroup& group : groups) group.rates = read_rates(group.recipe, group.rates);
  for (std::size_t t = 0; t < model.tensors.size(); ++t)
    groups[t % groups.size()].parameters.push_back(model.parameter(t));
  std::erase_if(groups, [](const ParameterGroup& group) { return group.parameters.empty(); });
  return groups;
}

template <typename Scalar>
Trained<Scalar> train(int rank_count, const Setting& setting) {
  Trained<Scalar> run;
  run.values.resize(static_cast<std::size_t>(rank_count));
  run.state_bytes.resize(static_cast<std::size_t>(rank_count));
  std::mutex mutex;
  run_ranks_at(
      setting.place, rank_count, [&](Communicator& communicator, kernels::Backend& backend) {
        ToyModel<Scalar> model(setting.shapes, 1, &backend);
        CountingCommunicator counting(communicator);
        Optimizer optimizer(
            backend, counting, groups_of(model, setting),
            {.merge_groups = setting.merges, .direction_bytes = setting.direction_bytes});
        std::int64_t most = 0, received = 0;
        for (int step = 0; step < setting.steps; ++step) {
          for (int g = 0, t = 0; g < optimizer.group_count(); ++g) {
            Group& group = optimizer.group(g);
            for (std::size_t j = 0; j < group.parameters().size(); ++j, ++t) {
              const bool absent =
                  setting.absent_every > 0 && step > 0 && (step + t) % setting.absent_every == 0;
              group.set_gradient(
                  j, absent ? nullptr : model.parameter(group.parameters()[j].name).gradient.data);
            }
          }
          const std::int64_t collectives = counting.collectives(),
                             bytes = counting.gathered_bytes();
          optimizer.step();
          most = std::max(most, counting.collectives() - collectives);
          received = counting.gathered_bytes() - bytes;
          model.new_gradients();
        }
        std::vector<std::vector<Scalar>> values = model.values();
        const std::lock_guard lock(mutex);
        const auto rank = static_cast<std::size_t>(communicator.rank());
        run.values[rank] = std::move(values);
        run.state_bytes[rank] = optimizer.state_bytes();
        run.collectives = std::max(run.collectives, most);
        run.received += received;
      });
  return run;
}

/// Few where kernels run on the host, block after block.
inline std::vector<int> rank_counts(Place place) {
  return place == Place::cpu ? std::vector{2, 3, 4, 8} : std::vector{2, 3};
}

template <typename Scalar>
void expect_equal_on_all_ranks(const Setting& setting) {
  const Trained<Scalar> alone = train<Scalar>(1, setting);
  EXPECT_EQ(alone.collectives, 0);
  const auto untrained = ToyModel<Scalar>(setting.shapes).values();
  EXPECT_NE(alone.values[0], untrained);
  for (const int count : rank_counts(setting.place)) {
    const Trained<Scalar> run = train<Scalar>(count, setting);
    for (const auto& values : run.values) EXPECT_EQ(values, alone.values[0]) << count << " ranks";
    EXPECT_EQ(run.collectives, 1) << count << " ranks";
  }
}

}  // namespace shampoo::test
