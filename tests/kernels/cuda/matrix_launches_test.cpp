// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda/device/product_key.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/launch/batch.h"
#include "kernels/cuda/mode_chain.h"
#include "tests/support/device/emulated_device.h"

namespace shampoo::test {
namespace {

using kernels::Stack;
using kernels::cuda::key_of;
using kernels::cuda::ModeChain;
using kernels::cuda::ModeMatrices;
using kernels::cuda::Product;
using Extent = std::vector<std::int64_t>;

/// An address of device memory that nobody follows.
void* address(std::uintptr_t bytes) { return reinterpret_cast<void*>(bytes); }

Stack stack_of(const Extent& extent, std::int64_t count) {
  Stack stack{.extent = extent, .count = count, .stride = 1, .factors = {}};
  for (const std::int64_t side : extent) stack.stride *= side;
  stack.stride = (stack.stride + 3) / 4 * 4;
  stack.factors.assign(extent.size(), address(4096));
  return stack;
}

const std::vector<Extent> long_sides = {{65, 66}, {1024, 768}, {128, 2, 67}, {65, 3, 3, 9}};

TEST(Batches, HoldNoMoreThanTheMostBlocksUnlessOneMatrixHasMore) {
  using Batch = kernels::cuda::Batch<kernels::cuda::MatrixGroup>;
  using kernels::SquareMatrixBatch;
  // As many blocks of threads as the side.
  const std::vector<SquareMatrixBatch> groups = {{Type::float32, 3, 4, 0, address(256)},
                                                 {Type::float32, 100, 2, 4, address(256)},
                                                 {Type::float32, 1, 5, 6, address(256)}};
  std::int64_t next = 0;
  kernels::cuda::for_each_batch<kernels::cuda::MatrixGroup>(
      groups.size(), [&](std::size_t g) { return kernels::cuda::MatrixGroup{groups[g]}; },
      [](const kernels::cuda::MatrixGroup& group) { return group.x.side; },
      [&](const Batch& batch) {
        EXPECT_TRUE(batch.blocks <= 10 || batch.matrices() == 1) << batch.blocks;
        for (std::int64_t number = 0; number < batch.matrices(); ++number)
          EXPECT_EQ(batch.row_of(number), next++);
      },
      10);
  EXPECT_EQ(next, 11);
}

TEST(Batches, PartsOfRowsAreFewAndCoverAMatrix) {
  for (const std::int64_t side : {1, 64, 129, 16'384, 16'385, 65'536, 65'537, 200'000}) {
    const std::int64_t parts = kernels::cuda::row_parts(side);
    EXPECT_LE(parts, kernels::cuda::most_row_parts);
    std::int64_t next = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const kernels::cuda::RowRange rows = kernels::cuda::row_part(side, part);
      ASSERT_EQ(rows.first, next);
      ASSERT_GT(rows.count, 0);
      next += rows.count;
    }
    EXPECT_EQ(next, side);
  }
}

TEST(ModeChain, ProductsOfAShapeHaveOneKeyInEveryStackAndPlace) {
  for (const Extent& extent : long_sides)
    for (const Type type : {Type::float32, Type::float64}) {
      const Stack one = stack_of(extent, 1), many = stack_of(extent, 300);
      const ModeMatrices roots;
      const ModeChain alone(one, roots), together(many, roots);
      ASSERT_TRUE(alone.is_by_library() && together.is_by_library());
      for (int step = 0; step < alone.length(); ++step) {
        const Product a = alone.product(step, type, address(256), address(256), address(256));
        const Product b = together.product(step, type, address(512), address(512 + 16 * 7),
                                           address(1024 + 16 * 3));
        EXPECT_EQ(key_of(a), key_of(b));
        EXPECT_NE(a.count, b.count);
      }
    }
}

TEST(ModeChain, OperandsOfWholeChainsLieAlongTheSum) {
  for (const Extent& extent : long_sides) {
    const Stack stack = stack_of(extent, 2);
    const ModeMatrices roots;
    const ModeChain chain(stack, roots);
    ASSERT_EQ(chain.length(), std::ssize(extent));
    for (int step = 0; step < chain.length(); ++step) {
      const Product p =
          chain.product(step, Type::float32, address(256), address(256), address(256));
      EXPECT_FALSE(p.a.transposed);
      EXPECT_TRUE(p.b.transposed);
      EXPECT_EQ(p.a.type, Type::float16);
      EXPECT_EQ(p.b.type, Type::float16);
      EXPECT_EQ(p.c_type, step + 1 < chain.length() ? Type::float16 : Type::float32);
    }
  }
}

TEST(ModeChain, OneLongSideIsForTheKernel) {
  for (const Extent& extent : std::vector<Extent>{{}, {1024}, {64, 64}, {1024, 64}, {1, 4096}}) {
    const Stack stack = stack_of(extent, 2);
    const ModeMatrices roots;
    EXPECT_FALSE(ModeChain(stack, roots).is_by_library());
    EXPECT_EQ(kernels::cuda::dense_root_bytes(stack, Type::float32), 0);
  }
}

/// A capture refuses a product that was not reserved.
TEST(ModeChain, ReserveMakesThePlansOfAllProducts) {
  auto* const device = new EmulatedDevice;
  kernels::cuda::DeviceBackend backend{std::unique_ptr<kernels::cuda::Device>(device)};
  for (const bool has_bases : {false, true}) {
    std::vector<Stack> stacks;
    for (const Extent& extent : std::vector<Extent>{{5, 3}, {65, 66}, {66, 2, 67}, {90, 70}}) {
      stacks.push_back(stack_of(extent, 3));
      stacks.back().whitens = true;
      if (has_bases) stacks.back().layout = kernels::FactorLayout::packed;
      if (has_bases) stacks.back().bases = stacks.back().factors;
    }
    stacks.back().factors[0] = nullptr;
    if (has_bases) stacks.back().bases[0] = nullptr;
    backend.reserve(stacks, Type::float32, {.largest_side = 90});
    const kernels::PassContext context;
    const std::int64_t before = device->launches();

    device->begin_capture();
    backend.accumulate_factors(context, stacks, {}, nullptr);
    backend.accumulate_whitened_factors(context, stacks, {}, nullptr, false);
    if (has_bases) {
      backend.rotate(context, stacks, {}, false, address(256));
      backend.precondition_in_eigenbasis(context, stacks, {}, {.direction = address(256)});
    } else {
      backend.precondition(context, stacks, {}, address(256), static_cast<double*>(address(256)));
    }
    EXPECT_EQ(static_cast<std::int64_t>(device->end_capture().size()), device->launches() - before);
  }
}

TEST(Decompositions, ReserveMakesThePlansOfTheirProducts) {
  auto* const device = new EmulatedDevice;
  kernels::cuda::DeviceBackend backend{std::unique_ptr<kernels::cuda::Device>(device)};
  backend.reserve({}, Type::float32, {.largest_side = 66, .matrices = {{5, 1}, {66, 2}}});
  for (const Type type : {Type::float32, Type::float64}) {
    const std::vector<kernels::SquareMatrixBatch> x = {
        {type, 5, 1, 0, address(256), address(256)}, {type, 66, 2, 1, address(512), address(512)}};
    device->begin_capture();
    EXPECT_NO_THROW(backend.multiply(x, x, x, nullptr));
    EXPECT_NO_THROW(backend.multiply_transposed(x, x, x));
    EXPECT_NO_THROW(backend.reconstruct(x, x));
    EXPECT_GE(device->end_capture().size(), 6u);
  }
}

TEST(Decompositions, ReserveMakesThePlansOfThoseThatOrthogonalize) {
  auto* const device = new EmulatedDevice;
  kernels::cuda::DeviceBackend backend{std::unique_ptr<kernels::cuda::Device>(device)};
  for (const Type type : {Type::float32, Type::float64}) {
    const std::vector<Stack> stacks = {stack_of({5, 3}, 3), stack_of({7, 10}, 2),
                                       stack_of({16, 16}, 2)};
    const std::vector<kernels::PolarPlan> plans(stacks.size());
    backend.reserve_orthogonalization(stacks, plans, type);
    kernels::PassContext context;
    context.elements.arithmetic = type;
    device->begin_capture();
    EXPECT_NO_THROW(backend.orthogonalize(context, stacks, {}, plans, address(256), nullptr));
    EXPECT_GE(device->end_capture().size(), 3u);
  }
}

TEST(AccumulateFactors, LaunchesWhatGradientsNeed) {
  auto* const device = new EmulatedDevice;
  kernels::cuda::DeviceBackend backend{std::unique_ptr<kernels::cuda::Device>(device)};
  Stack stack = stack_of({65, 66}, 3);
  backend.reserve({&stack, 1}, Type::float32, {.largest_side = 66});
  const auto launches = [&](const kernels::GradientForms& forms) {
    stack.gradients = forms;
    kernels::PassContext context;
    context.elements.tile_count = 1;
    device->begin_capture();
    backend.accumulate_factors(context, {&stack, 1}, {}, nullptr);
    return device->end_capture().size();
  };
  // Terms of gradients; for both dimensions four products, and their sum is added.
  constexpr int by_library = 1 + 2 * (4 + 1);
  EXPECT_EQ(launches({.halves = true, .wider = false, .gathered = false}), 1);
  EXPECT_EQ(launches({.halves = false, .wider = true, .gathered = false}), by_library);
  EXPECT_EQ(launches({.halves = false, .wider = false, .gathered = true}), by_library);
  EXPECT_EQ(launches({}), 1 + by_library);
}

}  // namespace
}  // namespace shampoo::test
