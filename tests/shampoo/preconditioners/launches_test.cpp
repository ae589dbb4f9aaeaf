// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "tests/shampoo/preconditioners/all_kinds.h"
#include "tests/shampoo/protocol/device_job.h"
#include "tests/shampoo/state/state_job.h"

namespace shampoo::test {
namespace {

/// Calls of a step by the host, and launches on a device but for those of decompositions, with
/// values in float32 and bfloat16.
class Launches : public ::testing::TestWithParam<Preconditioner> {
 protected:
  /// In each step of a model with that many tensors of each shape and type.
  static std::vector<std::int64_t> on_the_host(int groups, int layers) {
    const auto cpu = cpu_kernels({.threads = 1});
    CountingBackend counting(*cpu);
    return count(
        counting, [&] { return counting.launches(); }, groups, trainee(layers, true));
  }

  static std::vector<std::int64_t> on_a_device(int groups, int layers) {
    auto* const device = new EmulatedDevice;
    kernels::cuda::DeviceBackend backend{std::unique_ptr<kernels::cuda::Device>(device)};
    // So few layers have not all shapes in every phase.
    return count(
        backend, [&] { return device->launches_beside_decompositions(); }, groups,
        trainee(layers, false));
  }

 private:
  static Trainee trainee(int layers, bool staggered) {
    Recipe recipe = quick_recipe();
    recipe.refresh.staggered = staggered;
    recipe.preconditioner = GetParam();
    if (!std::holds_alternative<RootInverse>(GetParam())) recipe.grafting = std::nullopt;
    const std::vector<std::vector<std::int64_t>> layer =
        takes_matrices_only(GetParam())
            ? std::vector<std::vector<std::int64_t>>{{9, 8}, {20, 3}, {17, 1, 16}, {2, 3, 2}}
            : awkward_shapes();
    Trainee trainee{.shapes = {}, .recipes = {recipe}, .narrow = true};
    for (int l = 0; l < layers; ++l)
      trainee.shapes.insert(trainee.shapes.end(), layer.begin(), layer.end());
    return trainee;
  }

  static std::vector<std::int64_t> count(kernels::Backend& backend,
                                         const std::function<std::int64_t()>& launches, int groups,
                                         const Trainee& trainee) {
    const auto ranks = single_rank_communicator(backend.memory_kind());
    Job<float> job(*ranks, trainee, {.groups = groups}, {}, &backend);
    std::vector<std::int64_t> counts;
    for (int step = 0; step < 6; ++step) {
      const std::int64_t before = launches();
      job.optimizer->step();
      (void)job.optimizer->latest_result().applied();
      counts.push_back(launches() - before);
    }
    return counts;
  }
};

TEST_P(Launches, OnTheHostDependOnShapesTypesAndRecipeAlone) {
  const std::vector<std::int64_t> base = on_the_host(1, 10);
  EXPECT_GT(*std::ranges::min_element(base), 0);
  EXPECT_EQ(on_the_host(1, 100), base);
  EXPECT_EQ(on_the_host(1000, 100), base);
}

TEST_P(Launches, OnADeviceDependOnShapesTypesAndRecipeAlone) {
  const std::vector<std::int64_t> base = on_a_device(1, 1);
  EXPECT_GT(*std::ranges::min_element(base), 0);
  EXPECT_EQ(on_a_device(14, 2), base);
}

INSTANTIATE_TEST_SUITE_P(Of, Launches, testing::ValuesIn(all_kinds()), name_of_kind);

}  // namespace
}  // namespace shampoo::test
