// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <random>

#include "tests/shampoo/gradients/gradient_run.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

/// Noise, a function of seed, name, step and element alone, and centralisation: rows of what has
/// more than one dimension get the mean 0.
void transform(ToyModel<float>& model, const Optimizer& optimizer, std::uint32_t seed) {
  for (auto& tensor : model.tensors) {
    std::vector<std::uint32_t> key(tensor.name.begin(), tensor.name.end());
    key.push_back(seed);
    key.push_back(static_cast<std::uint32_t>(optimizer.steps(tensor.name)));
    std::seed_seq sequence(key.begin(), key.end());
    std::mt19937 random(sequence);
    for (float& g : tensor.gradient) g += 0x1p-34f * static_cast<float>(random());
    if (tensor.shape.size() < 2) continue;
    const std::size_t row = tensor.gradient.size() / static_cast<std::size_t>(tensor.shape[0]);
    for (std::size_t i = 0; i < tensor.gradient.size(); i += row) {
      float* const first = tensor.gradient.data() + i;
      const float mean = std::accumulate(first, first + row, 0.0f) / static_cast<float>(row);
      for (std::size_t j = 0; j < row; ++j) first[j] -= mean;
    }
  }
  model.send_gradients();
}

class GradientTransforms : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }
};

const GradientOptions clipped{.clipping = ClipGlobalNorm{2}};

TEST_P(GradientTransforms, InAHookGiveTheSameBitsAsBeforeTheStepOnAnyNumberOfRanksMergedOrNot) {
  const auto outcome = [](kernels::Backend& backend, Communicator& communicator, bool merges,
                          bool hooked) {
    GradientRun run(backend, communicator, {.gradients = clipped, .merge_groups = merges});
    const auto edit = [&](Optimizer& optimizer) { transform(run.model, optimizer, 7); };
    const auto hook = run.optimizer.on_step(hooked ? StepHooks{.before = edit} : StepHooks{});
    GradientOutcome left;
    for (int step = 0; step < 7; ++step) {
      const StepResult result = run.step([&](auto&) {
        if (!hooked) edit(run.optimizer);
      });
      left.norms.push_back(result.gradient_norm());
      left.factors.push_back(result.clip_factor());
    }
    left.values = run.model.values();
    return left;
  };
  GradientOutcome expected;
  run_ranks_at(GetParam(), 1, [&](Communicator& communicator, kernels::Backend& backend) {
    expected = outcome(backend, communicator, true, false);
    GradientRun plain(backend, communicator, {.gradients = clipped});
    for (int step = 0; step < 7; ++step) plain.step();
    EXPECT_NE(plain.model.values(), expected.values);
  });
  for (const int ranks : {1, 3})
    for (const bool merges : {true, false})
      run_ranks_at(GetParam(), ranks, [&](Communicator& communicator, kernels::Backend& backend) {
        EXPECT_EQ(outcome(backend, communicator, merges, true), expected) << ranks << merges;
      });
}

TEST_P(GradientTransforms, ThatBreakAGradientOrDifferOnOneRankAreNamed) {
  run_ranks_at(GetParam(), 3, [&](Communicator& communicator, kernels::Backend& backend) {
    GradientRun run(backend, communicator, {.gradients = clipped, .agree_before_commit = true});
    run.step();
    const auto values = run.model.values();
    const auto error_with = [&](const std::function<void(Optimizer&)>& before) {
      const auto hook = run.optimizer.on_step({.before = before});
      return error_of<CommunicationError>([&] { (void)run.optimizer.step().applied(); });
    };
    const auto differs = error_with([&](Optimizer& optimizer) {
      transform(run.model, optimizer, communicator.rank() == 1 ? 7 : 8);
    });
    EXPECT_NE(differs.find("not have the same gradients: their squared norm is "),
              std::string::npos)
        << differs;
    EXPECT_NE(differs.find("on rank 1"), std::string::npos) << differs;
    const auto breaks = error_with([&](Optimizer&) {
      if (communicator.rank() == 2)
        run.model.tensors[3].gradient[5] = std::numeric_limits<float>::quiet_NaN();
      run.model.send_gradients();
    });
    EXPECT_NE(breaks.find("'tensor3' is not finite on rank 2"), std::string::npos) << breaks;
    EXPECT_EQ(run.model.values(), values);
    EXPECT_TRUE(run.step().applied());
  });
}

INSTANTIATE_TEST_SUITE_P(Places, GradientTransforms, ::testing::Values(Place::cpu, Place::emulated),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
