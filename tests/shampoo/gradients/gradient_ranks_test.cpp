// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <mutex>

#include "tests/shampoo/gradients/gradient_run.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class GradientRanks : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }
};

/// With a scale that changes often, and a guard that lets all steps of these runs pass.
const OptimizerOptions voting{.gradients = {.loss_scaling = DynamicLossScale{.interval = 2},
                                            .spike_guard = {.deviations = 1000, .window = 3},
                                            .clipping = ClipGlobalNorm{2}},
                              .agree_before_commit = true};

TEST_P(GradientRanks, LeaveTheScaleAndTheWindowAloneWhereOneOfThemOverflows) {
  GradientOutcome expected;
  std::mutex mutex;
  for (const bool disturbed : {false, true})
    run_ranks_at(GetParam(), 3, [&](Communicator& communicator, kernels::Backend& backend) {
      GradientRun run(backend, communicator, voting);
      GradientOutcome outcome;
      for (int step = 0; step < 9; ++step) {
        if (disturbed && (step == 2 || step == 5)) {
          const double scale = run.optimizer.loss_scale();
          const auto norms = run.optimizer.state_dict().progress.gradient_norms;
          auto& gradient = run.model.tensors[2].gradient;
          const auto kept = gradient;
          if (communicator.rank() == 2) gradient[1] = std::numeric_limits<float>::infinity();
          run.model.send_gradients();
          EXPECT_NE(error_of<CommunicationError>([&] {
                      (void)run.optimizer.step().applied();
                    }).find("'tensor2' is not finite on rank 2"),
                    std::string::npos);
          gradient = kept;
          run.model.send_gradients();
          EXPECT_EQ(run.optimizer.loss_scale(), scale);
          EXPECT_EQ(run.optimizer.state_dict().progress.gradient_norms, norms);
        }
        outcome.norms.push_back(run.step().gradient_norm());
      }
      outcome.values = run.model.values();
      outcome.loss_scale = run.optimizer.loss_scale();
      const std::scoped_lock lock(mutex);
      if (!disturbed && communicator.rank() == 0) expected = outcome;
      if (disturbed) {
        EXPECT_EQ(outcome, expected);
      }
    });
  EXPECT_EQ(expected.loss_scale, 0x1p20);  // after 8 of 9 steps
}

TEST_P(GradientRanks, GoOnFromACheckpointOfOtherRanksInTheMiddleOfAnInterval) {
  const TemporaryFolder folder;
  GradientOutcome expected;
  std::vector<std::vector<float>> values_then;
  const auto train = [](GradientRun& run, int steps) {
    GradientOutcome outcome;
    for (int s = 0; s < steps; ++s)
      outcome.norms.push_back(s == 1 ? (run.overflow(), 0.0) : run.step().gradient_norm());
    outcome.values = run.model.values();
    outcome.loss_scale = run.optimizer.loss_scale();
    return outcome;
  };
  run_ranks_at(GetParam(), 3, [&](Communicator& communicator, kernels::Backend& backend) {
    GradientRun run(backend, communicator, voting);
    train(run, 5);
    save(run.optimizer, folder.path());
    const auto values = run.model.values();
    const GradientOutcome rest = train(run, 6);
    if (communicator.rank() != 0) return;
    values_then = values;
    expected = rest;
  });
  for (const int ranks : {1, 2})
    run_ranks_at(GetParam(), ranks, [&](Communicator& communicator, kernels::Backend& backend) {
      GradientRun run(backend, communicator, voting);
      for (int s = 0; s < 5; ++s) run.step();  // gradients come in the same order
      for (std::size_t t = 0; t < values_then.size(); ++t)
        run.model.tensors[t].value = values_then[t];
      run.model.send_values();
      load(run.optimizer, folder.path());
      const Progress progress = run.optimizer.state_dict().progress;
      EXPECT_EQ(progress.good_steps, 1);
      EXPECT_EQ(progress.gradient_norms.size(), 3u);
      EXPECT_EQ(train(run, 6), expected);
    });
}

INSTANTIATE_TEST_SUITE_P(Places, GradientRanks, ::testing::Values(Place::cpu, Place::emulated),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
