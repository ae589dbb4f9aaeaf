// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/block_work.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>

#include "grouping/blocks.h"
#include "tests/shampoo/toy_model.h"

namespace shampoo::test {
namespace {

using Shape = std::vector<std::int64_t>;

std::vector<grouping::Work> works_of(const Recipe& recipe, const Shape& shape) {
  const auto& [size, target_order] = recipe.blocking;
  std::vector<grouping::Work> works;
  for (const grouping::Box& box :
       grouping::cut(grouping::merge_small_dimensions(shape, size, target_order), size))
    works.push_back(work_of(recipe, box, Type::float32).work);
  return works;
}

struct Measured {
  std::string kind;
  Recipe recipe;
  Shape shape;
  double microseconds;  ///< of a tensor, on average over the refresh interval

  double cost() const {
    double sum = 0;
    for (const grouping::Work& work : works_of(recipe, shape))
      sum += static_cast<double>(work.cost);
    return sum;
  }
};

Recipe shampoo_recipe() {
  Recipe recipe{.preconditioner = RootInverse{.solver = Eigen{}}, .grafting = Adam{}};
  recipe.refresh = {.every = 10, .first = 10};
  return recipe;
}

/// build/release/tests/placement_benchmark --benchmark_filter=step_of_tensor
/// on 2 cores of an Intel Xeon with AVX-512, a virtual machine that is shared.
std::vector<Measured> measured() {
  const std::vector<Shape> shapes{{64, 64}, {256, 256}, {1024, 256}, {4096, 256}, {256, 1}, {1024}};
  struct Row {
    std::string kind;
    Recipe recipe;
    std::vector<double> microseconds;  ///< by shape
  };
  const std::vector<Row> rows{
      {"adamw", recipes::adamw(), {3.3, 54, 234, 946, 0.70, 0.90}},
      {"muon", recipes::muon(), {75, 2934, 5597, 11737}},
      {"shampoo", shampoo_recipe(), {82, 1721, 21548, 84766, 290, 10712}},
      {"soap", recipes::soap(), {46, 1660, 23870, 98742, 0.83, 1.3}},
      {"soap_reference", recipes::soap_reference(), {41, 1541, 20205, 78303, 149, 7248}},
      {"kl_shampoo", recipes::kl_shampoo(), {101, 2669, 30200, 121969, 258, 9877}}};
  std::vector<Measured> all;
  for (const Row& row : rows)
    for (std::size_t s = 0; s < row.microseconds.size(); ++s) {
      Recipe recipe = row.recipe;
      if (recipe.blocking.size != grouping::never_cut)
        recipe.blocking = {.size = 1024, .target_order = 1};
      all.push_back({row.kind, recipe, shapes[s], row.microseconds[s]});
    }
  return all;
}

std::string name_of(const Measured& m) {
  std::string name = m.kind;
  for (const std::int64_t side : m.shape) name += " " + std::to_string(side);
  return name;
}

TEST(BlockWork, RanksKindsAndShapesAsMeasured) {
  // The kernels of single kinds get faster, and machines differ.
  constexpr double clearly = 3;
  const std::vector<Measured> all = measured();
  int compared = 0;
  for (const Measured& slow : all)
    for (const Measured& fast : all)
      if (slow.microseconds > clearly * fast.microseconds) {
        ++compared;
        EXPECT_GT(slow.cost(), fast.cost()) << name_of(slow) << " after " << name_of(fast);
      }
  EXPECT_GT(compared, 300);
}

TEST(BlockWork, IsInProportionToMeasuredTimes) {
  // Picoseconds of a unit. Vectors under AdamW lie in the caches of the benchmark.
  for (const Measured& m : measured()) {
    const double unit = 1e6 * m.microseconds / m.cost();
    EXPECT_GT(unit, 4) << name_of(m);
    EXPECT_LT(unit, 12) << name_of(m);
  }
}

/// One tensor of each shape per layer: a hidden matrix, an embedding, and others.
const std::vector<Shape> layer{{96, 80}, {300, 40}, {200}, {3, 50, 40}};
constexpr int layers = 20;

std::vector<ParameterGroup> groups_of(ToyModel<float>& model) {
  std::vector<ParameterGroup> groups(3);
  groups[0] = {.rates = recipes::muon_rates(), .recipe = recipes::muon()};
  groups[1].recipe = recipes::adamw();
  groups[2] = {.rates = recipes::soap_rates(), .recipe = recipes::soap()};
  for (std::size_t t = 0; t < model.tensors.size(); ++t)
    groups[std::min<std::size_t>(t % layer.size(), 2)].parameters.push_back(model.parameter(t));
  return groups;
}

TEST(Placement, BalancesTheCostOfAllKindsTogether) {
  std::vector<Shape> shapes;
  for (int l = 0; l < layers; ++l) shapes.insert(shapes.end(), layer.begin(), layer.end());
  constexpr int ranks = 3;
  std::vector<grouping::Work> works;
  std::vector<int> owners;
  std::mutex mutex;
  run_ranks(ranks, [&](Communicator& communicator) {
    ToyModel<float> model(shapes);
    const auto backend = cpu_backend({.threads = 1});
    const std::vector<ParameterGroup> groups = groups_of(model);
    const Optimizer optimizer(*backend, communicator, groups);
    const std::lock_guard lock(mutex);
    for (const ParameterGroup& group : groups)
      for (const Parameter& parameter : group.parameters) try {
          (void)optimizer.slot_names(parameter.name, 0);
          for (const grouping::Work& work : works_of(group.recipe, parameter.shape))
            works.push_back(work), owners.push_back(communicator.rank());
        } catch (const std::invalid_argument&) {  // another rank's
        }
  });

  ASSERT_EQ(works.size(), shapes.size());
  const std::int64_t bound = grouping::lower_bounds(works, ranks).cost;
  for (const grouping::Work& load : grouping::loads(works, owners, ranks))
    EXPECT_LE(load.cost, bound + bound / 10);
}

}  // namespace
}  // namespace shampoo::test
