// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "kernels/cuda/device/workspace.h"
#include "tests/support/device/emulated_device.h"

namespace shampoo::test {
namespace {

using kernels::PolarPlan;
using kernels::SolverCalls;
using kernels::Stack;
using kernels::cuda::Workspace;

constexpr std::int64_t usual_side = 96;

Stack squares_of(std::int64_t n, std::int64_t count) {
  return {.extent = {n, n}, .count = count, .stride = n * n, .factors = {nullptr, nullptr}};
}

const std::vector<Stack> three = {squares_of(usual_side, 3)}, five = {squares_of(usual_side, 5)};
const SolverCalls calls = {
    .largest_side = usual_side, .decompositions = false, .matrices = {{usual_side, 2}}};

void reserve_polar(Workspace& workspace, const std::vector<Stack>& stacks) {
  const std::vector<PolarPlan> plans(stacks.size(), {.steps = {{1, 1, 1}}});
  workspace.reserve_orthogonalization(stacks, plans, Type::float32);
}

/// The device has 64 GiB.
TEST(DeviceWorkspace, StaysAsItWasWhereMemoryIsShort) {
  EmulatedDevice device;
  Workspace workspace(device);
  workspace.reserve(three, Type::float32, calls);
  reserve_polar(workspace, five);
  const std::size_t bytes = workspace.bytes();
  const void* const dense = workspace.dense(five, Type::float32);
  const std::vector<Stack> large = {squares_of(std::int64_t{1} << 17, 1)};
  EXPECT_THROW(workspace.reserve(large, Type::float32, calls), std::bad_alloc);
  EXPECT_THROW(reserve_polar(workspace, large), std::bad_alloc);
  EXPECT_EQ(workspace.bytes(), bytes);
  EXPECT_EQ(workspace.dense(five, Type::float32), dense);
}

}  // namespace
}  // namespace shampoo::test
