// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/prediction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cuda/device_backend.h"
#include "shampoo/optimizer.h"
#include "tests/bench/prediction/device_floor.h"
#include "tests/bench/prediction/kernel_assumptions.h"
#include "tests/support/device/emulated_device.h"

namespace shampoo::test {
namespace {

constexpr int frequency = 2;

NamedRecipe shampoo_recipe(std::int64_t block) {
  NamedRecipe named = named_recipe("shampoo", block, frequency);
  named.recipe.refresh.staggered = false;
  std::get<RootInverse>(named.recipe.preconditioner).solver = Minimax{};
  return named;
}

/// Of all launches of a kernel, with its template arguments or without them; in one phase, if there
/// is a range.
PredictedLine sum_of(const std::vector<Launch>& launches, const std::string& kernel,
                     const std::string& range = {}) {
  PredictedLine sum;
  for (const Launch& launch : launches) {
    if (!range.empty() && launch.range != range) continue;
    if (launch.name != kernel && !launch.name.starts_with(kernel + "<")) continue;
    ++sum.launches;
    sum.blocks += launch.blocks;
    sum.cost += launch.cost;
  }
  return sum;
}

double triangle(double n) { return n * (n + 1) / 2; }

/// The third step, after the first refresh.
std::vector<Launch> plain_step(std::vector<std::int64_t> shape, Type type) {
  const Model model{256, {{"w", std::move(shape)}}};
  return planned_run(model, shampoo_recipe(256), type, frequency + 1).steps.back();
}

TEST(Prediction, HasTheMemoryOfOneRank) {
  const Model model{64, {{"w", {64, 32}}}};
  const PlannedRun small = planned_run(model, shampoo_recipe(64), Type::float32, 1);
  // Of 2048 factors 32 are due at a time.
  NamedRecipe spread = shampoo_recipe(64);
  std::get<RootInverse>(spread.recipe.preconditioner).solver = Eigen{};
  spread.recipe.refresh = {.every = 64, .first = 64};
  const Model long_matrix{64, {{"w", {64, 64 * 1024}}}};
  const PlannedRun at_once =
      planned_run(long_matrix, spread, Type::float32, 1, {.direction_bytes = 1 << 30});
  const PlannedRun chunks =
      planned_run(long_matrix, spread, Type::float32, 1, {.direction_bytes = 1 << 20});
  // Two moments; a factor and a root of both sides
  EXPECT_EQ(small.state_bytes, 4 * (2 * 64 * 32 + 64 * 65 + 32 * 33));
  EXPECT_EQ(chunks.state_bytes, at_once.state_bytes);
  // P, where two copies of those are otherwise, and two arrays of scratch memory
  EXPECT_GT(at_once.workspace_bytes - chunks.workspace_bytes, 4 * 64 * 64 * (3 * 1000 - 2 * 32));
}

TEST(Prediction, CountsBothSidesOfABlockInFloat32) {
  constexpr double m = 128, n = 256;
  const auto step = plain_step({128, 256}, Type::float32);

  const PredictedLine product = sum_of(step, "product float16");
  EXPECT_EQ(product.launches, 2);
  EXPECT_EQ(product.cost.flops, 2 * m * n * (m + n));
  // F', T' twice, and P
  EXPECT_EQ(product.cost.bytes, 2 * (3 * m * n + m * m + n * n) + 4 * m * n);
  EXPECT_EQ(sum_of(step, "NarrowDirections").cost.bytes, (4 + 2) * m * n);
  EXPECT_EQ(sum_of(step, "UnpackRoots").cost.bytes,
            4 * (triangle(m) + triangle(n)) + 2 * (m * m + n * n));

  // Four products of two of three terms, for each of both sides.
  const PredictedLine gram = sum_of(step, "product bfloat16");
  EXPECT_EQ(gram.launches, 2 * 4);
  EXPECT_EQ(gram.cost.flops, 4 * 2 * m * n * (m + n));
  EXPECT_EQ(gram.cost.bytes, 4 * 2 * (2 * m * n * 2) + (1 + 3 * 2) * 4 * (m * m + n * n));
  EXPECT_EQ(sum_of(step, "SplitGradients").cost.bytes, (4 + 3 * 2) * m * n);
  EXPECT_EQ(sum_of(step, "AddGram").cost.bytes,
            4 * (m * m + n * n) + 8 * (triangle(m) + triangle(n)));
  EXPECT_EQ(sum_of(step, "Gram<float, 128>").launches, 0);
  EXPECT_EQ(sum_of(step, "HalfGram").launches, 0);
}

TEST(Prediction, CountsBytesOfPassesOverElements) {
  constexpr double elements = 128 * 256;
  const auto in_float32 = plain_step({128, 256}, Type::float32);
  EXPECT_EQ(sum_of(in_float32, "ScanTile").cost.bytes, 4 * elements);
  // gradient, M and V of the grafting twice, P
  EXPECT_EQ(sum_of(in_float32, "FilterTile").cost.bytes, (4 + 8 + 8 + 4) * elements);
  // P read where the last product left it, and written
  EXPECT_EQ(sum_of(in_float32, "TakeDirections").cost.bytes, 8 * elements);
  // P, the value twice
  EXPECT_EQ(sum_of(in_float32, "UpdateTile").cost.bytes, (4 + 8) * elements);

  const auto in_bfloat16 = plain_step({128, 256}, Type::bfloat16);
  EXPECT_EQ(sum_of(in_bfloat16, "ScanTile").cost.bytes, 2 * elements);
  EXPECT_EQ(sum_of(in_bfloat16, "FilterTile").cost.bytes, (2 + 8 + 8 + 4) * elements);
  // P, the master twice, the value
  EXPECT_EQ(sum_of(in_bfloat16, "UpdateTile").cost.bytes, (4 + 8 + 2) * elements);
}

TEST(Prediction, GivesGradientsOf16BitsToMatrixUnits) {
  constexpr double m = 128, n = 256;
  const auto step = plain_step({128, 256}, Type::bfloat16);
  EXPECT_EQ(sum_of(step, "Gram<float, 128>").launches, 0);
  EXPECT_EQ(sum_of(step, "HalfGram").cost.flops, 2 * 128 * 128 * (n + 3 * m));
  EXPECT_EQ(sum_of(step, "HalfGram").cost.bytes, 4 * m * n + 8 * (triangle(m) + triangle(n)));
}

TEST(Prediction, CountsWholeTilesOfSidesThatDoNotFillThem) {
  const auto step = plain_step({65, 33}, Type::float32);
  EXPECT_EQ(sum_of(step, "Gram<float, 128>").cost.flops, 2.0 * 128 * 128 * 33);
  EXPECT_EQ(sum_of(step, "Gram<float, 64>").cost.flops, 2.0 * 64 * 64 * 65);
  EXPECT_EQ(sum_of(step, "ModeProduct<float>").cost.flops, 2.0 * 2 * 64 * 64 * (65 + 33));
}

TEST(Prediction, CountsTheProductsOfARefresh) {
  constexpr double m = 128, n = 256;
  const Model model{256, {{"w", {128, 256}}}};
  const auto step =
      planned_run(model, shampoo_recipe(256), Type::float32, 2 * frequency).steps.back();
  // Accurate: 7 squares and 3 other products in 3 terms; 14 of 16 bits, of which 7 are squares. A
  // lower triangle of tiles has one tile of m, three of n.
  constexpr double products = (7 + 3) * 3 + 14;
  EXPECT_EQ(sum_of(step, "FormedProduct").cost.flops, products * 2 * 128 * 128 * (m + 3 * n));
  EXPECT_EQ(sum_of(step, "product float16", "roots").launches, 0);
  EXPECT_EQ(sum_of(step, "UnpackFactors").cost.bytes,
            4 * (triangle(m) + triangle(n) + m * m + n * n));
  constexpr double squares = m * m + n * n, triangles = m * (m + 1) / 2 + n * (n + 1) / 2;
  // One operand of squares, two of others; what is not read anyway is M, where N is made of Q.
  EXPECT_EQ(sum_of(step, "FormedProduct").cost.bytes, 4 * ((7 + 3 * 2) + 10) * squares +
                                                          (2 * (7 + 7 * 2) + 2 * 13 + 4) * squares +
                                                          (2 * 4 + 2) * triangles);
  // A, S, M and N
  EXPECT_EQ(sum_of(step, "Damp").cost.bytes, 4 * 4 * squares);
  // A norm, and M at the end
  EXPECT_EQ(sum_of(step, "MeasureParts").cost.bytes, (4 + 2) * squares);
}

/// A matrix, one that is as long as a tile and 1, a vector, a scalar.
const std::vector<std::vector<std::int64_t>> shapes = {{70, 100}, {1, 129}, {5}, {1}};

/// An optimizer on a device, of which no gradient of the first parameter is present.
template <typename Device>
struct Trained {
  explicit Trained(bool absent) {
    auto made = std::make_unique<Device>();
    device = made.get();
    backend = std::make_unique<kernels::cuda::DeviceBackend>(std::move(made));
    ParameterGroup group;
    group.recipe = shampoo_recipe(128).recipe;
    for (const auto& shape : shapes) {
      std::vector<float> numbers(static_cast<std::size_t>(grouping::numel(shape)));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = std::sin(static_cast<float>(3 * i + 1));
      for (int copy = 0; copy < 2; ++copy) {
        memory.emplace_back(*backend, numbers.size() * sizeof(float));
        backend->upload(memory.back().data(), numbers.data(), memory.back().bytes());
        backend->synchronize();
      }
      void* const gradient = absent && group.parameters.empty() ? nullptr : memory.back().data();
      group.parameters.push_back({.name = std::to_string(memory.size()),
                                  .shape = shape,
                                  .value = {memory[memory.size() - 2].data(), Type::float32},
                                  .gradient = {gradient, Type::float32}});
    }
    optimizer = std::make_unique<Optimizer>(*backend, *ranks, std::vector{group});
  }

  Device* device = nullptr;
  std::unique_ptr<kernels::cuda::DeviceBackend> backend;
  std::unique_ptr<Communicator> ranks = single_rank_communicator(MemoryKind::cuda);
  std::vector<kernels::Buffer> memory;
  std::unique_ptr<Optimizer> optimizer;
};

TEST(Prediction, HasTheLaunchesOfADeviceThatComputes) {
  Trained<PlannedDevice> planned(false);
  Trained<EmulatedDevice> computed(false);
  planned.device->take();
  for (int step = 1; step <= 2 * frequency; ++step) {
    const std::int64_t before = computed.device->launches();
    EXPECT_TRUE(computed.optimizer->step().applied());
    EXPECT_TRUE(planned.optimizer->step().applied());
    EXPECT_EQ(std::ssize(planned.device->take()), computed.device->launches() - before)
        << "step " << step;
  }
}

TEST(Prediction, LeavesOutBlocksWithoutAGradient) {
  Trained<PlannedDevice> planned(true);
  planned.device->take();
  EXPECT_TRUE(planned.optimizer->step().applied());
  const auto step = planned.device->take();
  constexpr double present = 129 + 5 + 1;
  EXPECT_EQ(sum_of(step, "ScanTile").cost.bytes, 4 * present);
  EXPECT_EQ(sum_of(step, "FilterTile").cost.bytes, (4 + 8 + 8 + 4) * present);
}

TEST(Prediction, TakesTheLargestBoundOfALine) {
  const DeviceModel device{"a device", "A Device", {1, 0, 0}, 2, 100, {1, 10, 20, 40, 10, 5}};
  const double scan = assumption_of("ScanTile")->share, gram = assumption_of("Gram")->share;
  const PredictedStep step = predicted_step({{"scan", "ScanTile<float>", 1, {3e9, 0}},
                                             {"factors", "Gram<float, 128>", 1, {1e9, 2e10}},
                                             {"factors", "Gram<float, 128>", 1, {1e9, 2e10}},
                                             {"scan", "ScanTile<float>", 9, {3e9, 0}},
                                             {"factors", "Gram<float, 64>", 500'000, {1, 1}}},
                                            device);
  ASSERT_EQ(step.lines.size(), 3);
  EXPECT_EQ(step.lines[0].launches, 2);
  EXPECT_DOUBLE_EQ(step.lines[0].ms, 6 / scan + 0.004);
  EXPECT_DOUBLE_EQ(step.lines[1].ms, 4 / gram + 0.004);
  EXPECT_DOUBLE_EQ(step.lines[2].ms, 5 + 0.002);
  EXPECT_EQ(step.launches(), 5);
  EXPECT_DOUBLE_EQ(step.ms(), step.lines[0].ms + step.lines[1].ms + step.lines[2].ms);
  EXPECT_TRUE(step.is_complete());
}

TEST(Prediction, SaysWhereNothingIsAssumed) {
  const PredictedStep step =
      predicted_step({{"roots", "decomposition", 0, {}}}, device_model("h200"));
  EXPECT_FALSE(step.is_complete());
  EXPECT_THROW(device_model("abacus"), std::invalid_argument);
}

TEST(DeviceModels, AreFoundByTheDescriptionOfABackend) {
  const DeviceModel* const found =
      device_model_of("cuda device 0, NVIDIA H100 80GB HBM3, sm_90, CUDA runtime 13.0");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "h100");
  EXPECT_EQ(device_model_of("cuda device 0, NVIDIA H100 PCIe, sm_90"), nullptr);
}

TEST(DeviceFloor, IsThatOfTensorCoresAndLeavesVectorsToADiagonal) {
  constexpr double m = 128, n = 256;
  const Model model{256, {{"w", {128, 256}}, {"v", {200}}}};
  const DeviceRates rates{1, 100, 50};
  const DeviceFloor in_float32 = device_floor(model, 256, Type::float32, rates);
  EXPECT_DOUBLE_EQ(in_float32.elementwise, 28 * (m * n + 200) / 1e9);
  EXPECT_DOUBLE_EQ(in_float32.factors, 8 * (triangle(m) + triangle(n)) / 1e9);
  EXPECT_DOUBLE_EQ(in_float32.gram, m * n * (m + n + 2) / 50e9);
  EXPECT_DOUBLE_EQ(in_float32.precondition, 2 * m * n * (m + n) / 100e9);
  EXPECT_DOUBLE_EQ(device_floor(model, 256, Type::bfloat16, rates).precondition,
                   2 * m * n * (m + n) / 100e9);
}

}  // namespace
}  // namespace shampoo::test
