// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>

#include "shampoo/schedules.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using namespace schedules;

TEST(Schedules, WithoutAKindStayAtTheBase) {
  EXPECT_EQ(Schedule().values(0.25, 3), (std::vector<double>{0.25, 0.25, 0.25}));
  EXPECT_EQ(Schedule().values(0.25, 0), std::vector<double>());
  EXPECT_EQ(Schedule().value(0, 100), 0);
}

TEST(Schedules, StayWhatTheyAreWhereTheyAreMoved) {
  Schedule schedule = schedules::Constant{.factor = 0.5, .steps = 10};
  const Schedule moved = std::move(schedule);
  EXPECT_EQ(schedule, moved);
  EXPECT_EQ(schedule.value(2, 1), 1.0);
}

TEST(Schedules, AreEqualToTheirCopiesOnly) {
  const Schedule cosine = Cosine{.steps = 7};
  EXPECT_EQ(cosine, Schedule(cosine));
  EXPECT_NE(cosine, Schedule(Cosine{.steps = 7}));
}

TEST(Schedules, OfWarmUpAndDecayLeaveOutPartsWithoutSteps) {
  const Schedule stable = WarmUpStableDecay{.stable = 2, .decay = 2};
  EXPECT_EQ(stable.values(1, 6), (std::vector<double>{1, 1, 1, 0.5, 0, 0}));
  const Schedule falls = WarmUpStableDecay{.decay = 4, .end_factor = 0.5};
  EXPECT_EQ(falls.values(8, 6), (std::vector<double>{8, 7, 6, 5, 4, 4}));
  const Schedule rises = WarmUpStableDecay{.warm_up = 2, .decay = 1, .start_factor = 0.5};
  EXPECT_EQ(rises.values(1, 5), (std::vector<double>{0.5, 0.75, 1, 0, 0}));
}

TEST(Schedules, OfTheInverseSquareRootFallWithThatOfAllStepsBehindARiseOfAsMany) {
  // 0.5, 1, 1.5, then 2 sqrt(4 / step)
  const Schedule whole =
      Sequence{{Linear{.start_factor = 0.25, .steps = 3}, InverseSquareRoot{4}}, {4}};
  const std::vector<double> values = whole.values(2, 65);
  EXPECT_EQ(values[0], 0.5);
  for (const auto& [step, value] : {std::pair(3, 2.0), {4, 2.0}, {16, 1.0}, {64, 0.5}})
    EXPECT_EQ(values[static_cast<std::size_t>(step)], value) << step;
}

TEST(Schedules, NeverFallBelowZeroByRounding) {
  // 0.3 + 6 (0 - 0.3) / 7, ... does not end in 0 exactly.
  for (const double start : {0.1, 0.3, 0.7, 1.0 / 3, 0.9})
    for (std::int64_t steps = 1; steps < 60; ++steps)
      for (const double value : Schedule(Linear{start, 0, steps}).values(0.1, steps + 2))
        ASSERT_GE(value, 0) << start << ", " << steps;
}

TEST(Schedules, OfOneCycleStayAtTheirEnd) {
  const Schedule cycle = OneCycle{.steps = 10, .start_divisor = 4, .final_divisor = 8};
  const std::vector<double> values = cycle.values(1, 13);
  EXPECT_EQ(values[0], 0.25);
  EXPECT_EQ(values[2], 1);
  for (const std::size_t step : {9u, 10u, 12u}) EXPECT_EQ(values[step], 1.0 / 32);
}

TEST(Schedules, OfAlmostEndlessLengthStayAtTheirStart) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Schedule restarts = WarmRestarts{.first = 3, .factor = std::int64_t{1} << 62};
  EXPECT_EQ(restarts.value(1, 2), Schedule(WarmRestarts{.first = 3}).value(1, 2));
  EXPECT_EQ(restarts.values(1, 6).back(), 1);
  EXPECT_EQ(Schedule(Cosine{.steps = most}).values(1, 5), std::vector<double>(5, 1));
  const Schedule stable = WarmUpStableDecay{.warm_up = 2, .stable = most, .start_factor = 0.5};
  EXPECT_EQ(stable.values(1, 5), (std::vector<double>{0.5, 0.75, 1, 1, 1}));
}

TEST(Schedules, CanBeNested) {
  const Schedule inner =
      Sequence{{Constant{.factor = 0.5, .steps = 2}, Exponential{.factor = 0.5}}, {3}};
  const Schedule outer = Sequence{{Schedule(), inner}, {2}};
  EXPECT_EQ(outer.values(8, 7), (std::vector<double>{8, 8, 4, 4, 8, 8, 4}));
  const Schedule chain = Chain{{inner, Exponential{.factor = 0.5}}};
  EXPECT_EQ(chain.values(8, 3), (std::vector<double>{4, 2, 2}));
}

TEST(Schedules, NameWhatIsOutOfRange) {
  const std::function<double(std::int64_t)> none;
  const auto refused = [](const std::function<void()>& make, const std::string& message) {
    EXPECT_EQ(error_of<std::invalid_argument>(make), "schedules::" + message);
  };
  refused([] { Schedule(Constant{.factor = 0}); },
          "Constant: factor must be in [2^-126, inf), got 0");
  refused([] { Schedule(Constant{.steps = 0}); }, "Constant: steps must be >= 1, got 0");
  refused([] { Schedule(Linear{.start_factor = 0}); },
          "Linear: start_factor must be in [2^-126, inf), got 0");
  refused([] { Schedule(Linear{.end_factor = -1}); },
          "Linear: end_factor must be in [0, inf), got -1");
  refused([] { Schedule(Polynomial{.steps = -3}); }, "Polynomial: steps must be >= 1, got -3");
  refused([] { Schedule(InverseSquareRoot{0}); }, "InverseSquareRoot: steps must be >= 1, got 0");
  refused([] { Schedule(Step{.every = 0}); }, "Step: every must be >= 1, got 0");
  refused([] { Schedule(Milestones{.steps = {3, -1}}); }, "Milestones: steps must be >= 0, got -1");
  refused([] { Schedule(Cosine{.steps = 0}); }, "Cosine: steps must be >= 1, got 0");
  refused([] { Schedule(WarmRestarts{.factor = 0}); }, "WarmRestarts: factor must be >= 1, got 0");
  refused([] { Schedule(OneCycle{.rise = 2}); }, "OneCycle: rise must be in [0, 1], got 2");
  refused([] { Schedule(OneCycle{.rise = 0.75, .three_phases = true}); },
          "OneCycle: rise must be in [0, 0.5] with three_phases, got 0.75");
  refused([] { Schedule(WarmUpStableDecay{.warm_up = -1}); },
          "WarmUpStableDecay: warm_up must be >= 0, got -1");
  refused([&] { Schedule(Function{none}); }, "Function: factor: is empty");
  refused([&] { Schedule(Product{none}); }, "Product: factor: is empty");
  refused([] { Schedule(Sequence{}); }, "Sequence: schedules must be at least one, got 0");
  refused(
      [] {
        Schedule(Sequence{{Schedule(), Schedule()}, {}});
      },
      "Sequence: the number of begins must be one less than that of schedules, got 0");
  refused(
      [] {
        Schedule(Sequence{{Schedule(), Schedule(), Schedule()}, {4, 4}});
      },
      "Sequence: begins must be >= 1 and ascending, got 4");
  refused([] { Schedule(Chain{}); }, "Chain: schedules must be at least one, got 0");
  refused([] { Schedule().value(1, -1); }, "Schedule: step must be >= 0, got -1");
}

}  // namespace
}  // namespace shampoo::test
