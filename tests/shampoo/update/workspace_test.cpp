// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "distributor/communicator.h"
#include "shampoo/shampoo.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_backend.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

/// 8.4 million parameters, all 0.
struct LargeModel {
  std::vector<std::vector<std::int64_t>> shapes = {{2048, 2048}, {2048, 1024}, {1024, 2048}, {512}};
  std::vector<std::vector<float>> values, gradients;

  LargeModel() {
    for (const auto& shape : shapes) {
      const auto count = static_cast<std::size_t>(grouping::numel(shape));
      values.emplace_back(count);
      gradients.emplace_back(count);
    }
  }
  std::int64_t elements() const {
    std::int64_t sum = 0;
    for (const auto& value : values) sum += std::ssize(value);
    return sum;
  }
  ParameterGroup group(const Recipe& recipe) {
    ParameterGroup group{.recipe = recipe};
    for (std::size_t t = 0; t < shapes.size(); ++t)
      group.parameters.push_back({.name = "tensor" + std::to_string(t),
                                  .shape = shapes[t],
                                  .value = values[t].data(),
                                  .gradient = gradients[t].data()});
    return group;
  }
};

TEST(Workspace, IsAtMostAQuarterOfTheStateBesideTheExchange) {
  Recipe float16 = {};
  float16.preconditioner = RootInverse{.root_type = Type::float16};
  for (const Recipe& kind : {Recipe{}, float16, recipes::soap(), recipes::kl_shampoo()})
    for (const int ranks : {1, 3})
      run_ranks(ranks, [&](Communicator& communicator) {
        LargeModel model;
        const auto backend = cpu_kernels({.threads = ranks == 1 ? 2 : 1});
        Recipe recipe = kind;
        recipe.blocking.size = 64;
        Optimizer optimizer(*backend, communicator, {model.group(recipe)});
        // Headers, alignment, and padding for equal lengths.
        const std::int64_t exchange =
            ranks == 1 ? 0 : 104 * 4 * model.elements() / 100 + ranks * 128;
        const std::int64_t rest = optimizer.workspace_bytes() + backend->memory_use().scratch;
        EXPECT_LE(4 * (rest - exchange), optimizer.state_bytes()) << ranks << " ranks";
      });
}

/// Layers of two matrices of 256 x 256, all 0: calls of a plain step by the host.
std::int64_t launches_of(const Recipe& recipe, int layers) {
  std::vector<std::vector<float>> memory(static_cast<std::size_t>(2 * layers),
                                         std::vector<float>(std::size_t{2} * 256 * 256));
  ParameterGroup group{.recipe = recipe};
  for (std::size_t t = 0; t < memory.size(); ++t)
    group.parameters.push_back({.name = std::to_string(t),
                                .shape = {256, 256},
                                .value = memory[t].data(),
                                .gradient = memory[t].data() + 256 * 256});
  const auto cpu = cpu_kernels({.threads = 2});
  CountingBackend backend(*cpu);
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(backend, *ranks, {group});
  const std::int64_t before = backend.launches();
  optimizer.step();
  return backend.launches() - before;
}

TEST(Launches, WithChunksDoNotDependOnTheNumberOfLayers) {
  Recipe recipe = recipes::soap();
  recipe.blocking.size = 64;
  recipe.refresh.first = 1000;
  const std::int64_t in_one_chunk = launches_of(recipe, 1), in_some = launches_of(recipe, 16);
  EXPECT_GT(in_some, in_one_chunk);
  EXPECT_LE(in_some, 3 * in_one_chunk);
  EXPECT_EQ(launches_of(recipe, 64), in_some);
}

TEST(Workspace, OfAnElementwiseKindOnOneRankIsItsTablesAlone) {
  LargeModel model;
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  for (const Recipe& recipe :
       {recipes::adamw(), recipes::lion(), recipes::schedule_free_adamw(), recipes::sgd()}) {
    Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
    optimizer.step();
    const std::int64_t memory = optimizer.workspace_bytes() + backend->memory_use().scratch;
    EXPECT_LE(100 * memory, optimizer.state_bytes());
  }
}

TEST(Workspace, ShrinksToTheLargestBlock) {
  LargeModel model;
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  const auto bytes_with = [&](std::int64_t direction_bytes, Recipe recipe = recipes::soap()) {
    recipe.blocking.size = 256;
    return Optimizer(*backend, *ranks, {model.group(recipe)}, {.direction_bytes = direction_bytes})
        .workspace_bytes();
  };
  const std::int64_t directions = 4 * model.elements();
  const std::int64_t all = bytes_with(directions), some = bytes_with(8 << 20), one = bytes_with(0);
  EXPECT_LT(one, some);
  EXPECT_LT(some, all);
  // One block lies where solvers have two to four copies of matrices, each of 512 KiB and gaps.
  EXPECT_GE(all - one, directions - 4 * (513 << 10));
  EXPECT_LE(all - one, directions - 2 * (512 << 10));
  EXPECT_EQ(bytes_with(512 << 10), one);
  EXPECT_EQ(bytes_with(directions, Recipe{}), bytes_with(0, Recipe{})) << "has no directions";
}

TEST(Workspace, HasNoDirectionsOfMuon) {
  ToyModel<float> model({{600, 40}, {33, 65}, {9, 8}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  const auto bytes_with = [&](std::int64_t direction_bytes, const Recipe& recipe) {
    return Optimizer(*backend, *ranks, {model.group(recipe)}, {.direction_bytes = direction_bytes})
        .workspace_bytes();
  };
  Recipe muon = recipes::muon();
  EXPECT_EQ(bytes_with(1 << 20, muon), bytes_with(0, muon));
  muon.update_scaling = UpdateClipping{};
  EXPECT_GT(bytes_with(1 << 20, muon), bytes_with(0, muon));
}

}  // namespace
}  // namespace shampoo::test
