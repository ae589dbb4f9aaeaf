// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
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

char* sums_of(Workspace& workspace) {
  return static_cast<char*>(workspace.sums(usual_side).take(usual_side, 1));
}

void reserve_polar(Workspace& workspace, const std::vector<Stack>& stacks) {
  const std::vector<PolarPlan> plans(stacks.size(), {.steps = {{1, 1, 1}}});
  workspace.reserve_orthogonalization(stacks, plans, Type::float32);
}

TEST(DeviceWorkspace, HasSumsInTheMemoryOfTwoDenseArraysWhereTheyFit) {
  EmulatedDevice device;
  Workspace workspace(device), without_solver(device);
  workspace.reserve(three, Type::float32, calls);
  without_solver.reserve(three, Type::float32,
                         {.decompositions = false, .symmetric_products = false});
  EXPECT_EQ(workspace.bytes(), without_solver.bytes());
  EXPECT_THROW(sums_of(without_solver), std::logic_error);
}

TEST(DeviceWorkspace, HasSumsBehindWhatIsOrthogonalizedInAnyOrder) {
  constexpr std::int64_t matrix = usual_side * usual_side * std::int64_t{sizeof(float)};
  for (const bool solver_first : {false, true}) {
    EmulatedDevice device;
    Workspace workspace(device);
    if (solver_first) workspace.reserve(three, Type::float32, calls);
    reserve_polar(workspace, five);
    if (!solver_first) workspace.reserve(three, Type::float32, calls);
    const auto* const dense = static_cast<char*>(workspace.polar_dense(five, Type::float32));
    EXPECT_GE(sums_of(workspace) - dense, 5 * matrix);
    EXPECT_THROW(workspace.polar_dense({{squares_of(usual_side, 6)}}, Type::float32),
                 std::logic_error);
  }
}

/// The device has 64 GiB.
TEST(DeviceWorkspace, StaysAsItWasWhereMemoryIsShort) {
  EmulatedDevice device;
  Workspace workspace(device);
  workspace.reserve(three, Type::float32, calls);
  reserve_polar(workspace, five);
  const std::size_t bytes = workspace.bytes();
  const char* const sums = sums_of(workspace);
  constexpr std::int64_t large = std::int64_t{1} << 17;
  EXPECT_THROW(
      workspace.reserve(three, Type::float32, {.largest_side = large, .decompositions = false}),
      std::bad_alloc);
  EXPECT_THROW(reserve_polar(workspace, {squares_of(large, 1)}), std::bad_alloc);
  EXPECT_EQ(workspace.bytes(), bytes);
  EXPECT_EQ(sums_of(workspace), sums);
}

}  // namespace
}  // namespace shampoo::test
