// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tuple>

#include "tests/shampoo/gradients/gradient_run.h"

namespace shampoo::test {
namespace {

class GradientOptionSet : public ::testing::TestWithParam<std::tuple<Place, int>> {
 protected:
  Place place = std::get<Place>(GetParam());
  NamedGradientOptions set =
      gradient_option_sets()[static_cast<std::size_t>(std::get<int>(GetParam()))];
};

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

INSTANTIATE_TEST_SUITE_P(
    All, GradientOptionSet,
    ::testing::Combine(::testing::Values(Place::cpu, Place::emulated),
                       ::testing::Range(0, static_cast<int>(gradient_option_sets().size()))),
    [](const auto& tested) {
      const auto index = static_cast<std::size_t>(std::get<int>(tested.param));
      return name_of(std::get<Place>(tested.param)) + "_" + gradient_option_sets()[index].name;
    });

}  // namespace
}  // namespace shampoo::test
