// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <variant>

#include "tests/shampoo/gradients/gradient_run.h"

namespace shampoo::test {
namespace {

class GradientOptionSet : public OfGradientOptions {};

TEST_P(GradientOptionSet, GivesTheSameBitsMergedOrNotOnOneRankAndOnThree) {
  require_ranks(place);
  if (IsSkipped()) return;
  GradientOutcome expected;
  run_ranks_at(place, 1, [&](Communicator& communicator, kernels::Backend& backend) {
    expected = outcome_of(backend, communicator, {.gradients = set.options});
  });
  EXPECT_EQ(expected.norms.size(), 9u);
  for (const int ranks : {1, 3})
    for (const bool merges : {true, false})
      for (const bool votes : {false, true})
        run_ranks_at(place, ranks, [&](Communicator& communicator, kernels::Backend& backend) {
          const GradientOutcome found = outcome_of(
              backend, communicator,
              {.gradients = set.options, .merge_groups = merges, .agree_before_commit = votes});
          EXPECT_EQ(found, expected) << ranks << ' ' << merges << ' ' << votes;
        });
}

/// So that the equality above is not one of runs in which nothing happens.
TEST_P(GradientOptionSet, ChangesWhatItIsForAndNothingElse) {
  run_ranks_at(place, 1, [&](Communicator& communicator, kernels::Backend& backend) {
    const auto outcome = [&](const GradientOptions& options) {
      return outcome_of(backend, communicator, {.gradients = options});
    };
    const GradientOutcome plain = outcome({}), found = outcome(set.options);
    const bool scales = !std::holds_alternative<NoLossScale>(set.options.loss_scaling);
    const bool clips = !std::holds_alternative<NoClipping>(set.options.clipping);
    const bool guards = set.options.spike_guard.window > 0;
    EXPECT_EQ(found.values == plain.values, !clips && !guards);
    EXPECT_EQ(found.loss_scale == 1, !scales);
    EXPECT_EQ(found.spikes > 0, guards);
    GradientOptions unscaled = set.options;
    unscaled.loss_scaling = NoLossScale{};
    EXPECT_EQ(outcome(unscaled).values, found.values) << "a power of two";
  });
}

INSTANTIATE_TEST_SUITE_P(All, GradientOptionSet, gradient_options_everywhere(),
                         name_of_gradient_options);

}  // namespace
}  // namespace shampoo::test
