// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cuda/device_backend.h"
#include "shampoo/optimizer.h"
#include "tests/support/device/concurrent_blocks.h"
#include "tests/support/device/emulated_device.h"
#include "tests/support/read_rates.h"

namespace shampoo::test {
namespace {

struct Model {
  std::string name;
  Type values = Type::float32, gradients = Type::float32;
  Recipe recipe = {};
};

/// Sides of 1, primes, one past a tile of 64, two tiles of 128, more than two dimensions; sums of
/// more panels than are in memory at once.
const std::vector<std::vector<std::int64_t>> shapes = {{5},      {65, 33},  {1, 17},
                                                       {130, 3}, {70, 100}, {3, 4, 5}};

std::vector<char> numbers(Type type, std::size_t count, double seed) {
  std::vector<char> bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    const double x = std::sin(seed + 1.7 * static_cast<double>(i));
    const auto narrow = static_cast<float>(x);
    std::uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof(bits));
    // Of float16 any finite bits do.
    const auto half =
        static_cast<std::uint16_t>(type == Type::float16 ? 0x3000u | (bits & 0x83ffu) : bits >> 16);
    if (type == Type::float64) std::memcpy(bytes.data() + 8 * i, &x, 8);
    if (type == Type::float32) std::memcpy(bytes.data() + 4 * i, &narrow, 4);
    if (size_of(type) == 2) std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  return bytes;
}

/// Bytes of all values after two steps, the second with a refresh.
std::vector<char> trained(const Model& model, EmulatedDevice::Runner runner) {
  kernels::cuda::DeviceBackend backend(std::make_unique<EmulatedDevice>(runner));
  const auto ranks = single_rank_communicator(MemoryKind::cuda);
  std::vector<kernels::Buffer> memory;
  std::vector<std::vector<char>> sent;
  const auto tensor = [&](Type type, const std::vector<std::int64_t>& shape, double seed) {
    sent.push_back(numbers(type, static_cast<std::size_t>(grouping::numel(shape)), seed));
    memory.emplace_back(backend, sent.back().size());
    backend.upload(memory.back().data(), sent.back().data(), sent.back().size());
    backend.synchronize();
    return Tensor(memory.back().data(), type);
  };

  std::vector<ParameterGroup> groups(2);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto seed = static_cast<double>(i);
    groups[i % 2].parameters.push_back({.name = std::to_string(i),
                                        .shape = shapes[i],
                                        .value = tensor(model.values, shapes[i], seed),
                                        .gradient = tensor(model.gradients, shapes[i], seed + 7)});
  }
  for (ParameterGroup& group : groups) {
    group.recipe = model.recipe;
    group.rates = read_rates(group.recipe, {.weight_decay = 0.1, .momentum = 0.5});
  }
  Optimizer optimizer(backend, *ranks, groups);
  for (int step = 0; step < 2; ++step) EXPECT_TRUE(optimizer.step().applied());

  std::vector<char> values;
  for (std::size_t i = 0; i < memory.size(); i += 2) {
    const std::size_t before = values.size();
    values.resize(before + memory[i].bytes());
    backend.download(values.data() + before, memory[i].data(), memory[i].bytes());
    backend.synchronize();
  }
  return values;
}

Recipe recipe(const Solver& solver) {
  Recipe recipe{.preconditioner = RootInverse{.solver = solver}};
  recipe.refresh = {.every = 2, .first = 2};
  recipe.averaging = Momentum{.nesterov = true};
  recipe.blocking = {.size = 160, .target_order = grouping::any_order};
  return recipe;
}

Recipe in_float64() {
  Recipe all = recipe(Eigen{});
  all.arithmetic = Arithmetic::float64;
  all.weight_decay = WeightDecay::l2;
  return all;
}

class DeviceRace : public testing::TestWithParam<Model> {};

TEST_P(DeviceRace, ThreadsThatRunTogetherGiveTheBitsOfThreadsInTurn) {
  EXPECT_EQ(trained(GetParam(), run_blocks_concurrently), trained(GetParam(), run_blocks_in_turn));
}

INSTANTIATE_TEST_SUITE_P(
    , DeviceRace,
    testing::Values(Model{"float32_minimax", Type::float32, Type::float32,
                          recipe(Minimax{.kappa_max = 1e2})},
                    Model{"bfloat16_minimax", Type::bfloat16, Type::bfloat16,
                          recipe(Minimax{.kappa_max = 1e2})},
                    Model{"float16_gradients", Type::float32, Type::float16, recipe(Eigen{})},
                    Model{"float64_l2", Type::float64, Type::float64, in_float64()},
                    Model{"coupled_newton", Type::float32, Type::float32,
                          recipe(CoupledNewton{.max_iterations = 2})}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace shampoo::test
