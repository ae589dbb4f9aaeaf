// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "shampoo/update/refresh_schedule.h"
#include "tests/shampoo/state/state_job.h"

namespace shampoo::test {
namespace {

TEST(RefreshSchedule, RefreshesEveryBlockOnceInTheIntervalThatEndsAtTheFirstStepAndInEachAfterIt) {
  for (const std::int64_t every : {1, 2, 3, 10})
    for (const std::int64_t first : {1, 2, 3, 4, 9, 10, 25})
      for (std::int64_t phase = 0; phase < every; ++phase) {
        Recipe recipe;
        recipe.refresh = {.every = every, .first = first};
        int by_first = 0;
        for (std::int64_t step = 1; step <= first + 3 * every; ++step) {
          const bool turn = step > first - every && (step + phase) % every == 0;
          const bool latest = step == first && by_first == 0;
          EXPECT_EQ(is_due(recipe, step, phase), turn || latest)
              << every << " " << first << " " << phase << " " << step;
          EXPECT_EQ(is_preconditioned(recipe, step), step >= first);
          by_first += step <= first && (turn || latest);
        }
        EXPECT_EQ(by_first, 1);
      }
}

TEST(RefreshSchedule, RefreshesAllBlocksAtOnceUnlessStaggered) {
  Recipe recipe;
  recipe.refresh = {.every = 4, .first = 6, .staggered = false};
  for (std::int64_t step = 1; step <= 20; ++step) {
    EXPECT_EQ(is_due(recipe, step, 0), step == 6 || (step > 6 && step % 4 == 0)) << step;
    EXPECT_EQ(is_preconditioned(recipe, step), step >= 6) << step;
  }
}

TEST(RefreshSchedule, HoldsForTheLargestNumbers) {
  constexpr std::int64_t largest = INT64_MAX;
  Recipe recipe;
  recipe.refresh = {.every = largest, .first = largest};
  EXPECT_TRUE(is_due(recipe, largest, 0));
  EXPECT_FALSE(is_due(recipe, largest, 1));
  EXPECT_TRUE(is_due(recipe, 1, largest - 1));
  EXPECT_TRUE(is_preconditioned(recipe, largest));
  EXPECT_FALSE(is_preconditioned(recipe, largest - 1));
  recipe.refresh.first = 1;
  EXPECT_TRUE(is_due(recipe, 1, largest - 1));
  EXPECT_TRUE(is_due(recipe, 1, 0)) << "has no turn before";
  EXPECT_FALSE(is_due(recipe, 2, 0));
  recipe.refresh.first = std::nullopt;
  EXPECT_FALSE(is_due(recipe, largest, 0));
  EXPECT_FALSE(is_preconditioned(recipe, largest));
}

Recipe with_interval(std::int64_t every, const Preconditioner& kind = RootInverse{}) {
  Recipe recipe = quick_recipe();
  recipe.preconditioner = kind;
  recipe.refresh = {.every = every, .first = 2};
  return recipe;
}

/// Kinds and intervals that differ; one group of each, and one group that is added later.
std::vector<Recipe> recipes_of_groups() {
  return {with_interval(3), with_interval(4, Eigendecomposed{.solver = Qr{}}), with_interval(3),
          with_interval(3, EigenvalueCorrected{})};
}

struct LateGroups {
  int ranks = 1;
  bool merges = true;
  int late = 2;           ///< groups that are added at their time
  bool reversed = false;  ///< order of the parameters of a group
  int steps_before = 4, steps_after = 9;
};

/// Trains with all groups but the last ones, adds these, trains on. Every group has two shapes.
struct LateJob {
  LateJob(Communicator& communicator, const LateGroups& late) : setting(late), model(shapes()) {
    std::vector<ParameterGroup> early;
    for (std::size_t g = 0; g < all_.size() - static_cast<std::size_t>(setting.late); ++g)
      early.push_back(group(g));
    optimizer.emplace(*backend_, communicator, early,
                      OptimizerOptions{.merge_groups = setting.merges});
  }

  static std::vector<std::vector<std::int64_t>> shapes() {
    std::vector<std::vector<std::int64_t>> all;
    for (std::size_t g = 0; g < recipes_of_groups().size(); ++g) {
      all.push_back({17, 16});
      all.push_back({13, static_cast<std::int64_t>(g + 2)});
    }
    return all;
  }

  ParameterGroup group(std::size_t g) {
    ParameterGroup made{.rates = read_rates(all_[g], {.learning_rate = 1e-2, .epsilon = 1e-6}),
                        .recipe = all_[g]};
    made.parameters = {model.parameter(2 * g), model.parameter(2 * g + 1)};
    if (setting.reversed) std::ranges::reverse(made.parameters);
    return made;
  }

  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      model.new_gradients();
      optimizer->step();
    }
  }
  void add() {
    for (std::size_t g = all_.size() - static_cast<std::size_t>(setting.late); g < all_.size(); ++g)
      optimizer->add_group(group(g));
  }

  LateGroups setting;
  std::vector<Recipe> all_ = recipes_of_groups();
  std::unique_ptr<kernels::Backend> backend_ = cpu_kernels({.threads = 1});
  ToyModel<float> model;
  std::optional<Optimizer> optimizer;
};

struct Outcome {
  std::vector<std::vector<float>> values;
  StateDict state;
  bool operator==(const Outcome&) const = default;
};

Outcome train(const LateGroups& setting) {
  Outcome outcome;
  std::mutex mutex;
  run_ranks(setting.ranks, [&](Communicator& communicator) {
    LateJob job(communicator, setting);
    job.train(setting.steps_before);
    job.add();
    job.train(setting.steps_after);
    StateDict state = job.optimizer->full_state_dict();
    const std::lock_guard lock(mutex);
    if (communicator.rank() == setting.ranks - 1) outcome = {job.model.values(), std::move(state)};
  });
  return outcome;
}

TEST(StaggeredRefresh, GivesTheSameBitsOnAnyNumberOfRanksMergedOrNotWithGroupsAddedLater) {
  for (const int late : {0, 1, 2}) {
    const Outcome expected = train({.late = late});
    for (const int ranks : {1, 2, 3, 8})
      for (const bool merges : {true, false})
        EXPECT_EQ(train({.ranks = ranks, .merges = merges, .late = late, .reversed = merges}),
                  expected)
            << ranks << " ranks, " << merges << ", " << late << " late groups";
  }
}

TEST(StaggeredRefresh, GoesOnFromAStateDictWithTheSameBitsWithGroupsThatWereAdded) {
  const LateGroups whole{.ranks = 3, .merges = false};
  const Outcome expected = train(whole);
  LateGroups part = whole;
  part.steps_after = 5;
  const Outcome saved = train(part);
  for (const int ranks : {1, 2, 5})
    run_ranks(ranks, [&](Communicator& communicator) {
      LateJob job(communicator, {.ranks = ranks});
      job.add();
      for (int step = 0; step < part.steps_before + part.steps_after; ++step)
        job.model.new_gradients();
      for (std::size_t t = 0; t < saved.values.size(); ++t)
        job.model.tensors[t].value = saved.values[t];
      job.model.send_values();
      EXPECT_TRUE(job.optimizer->load_state_dict(saved.state).recomputed.empty());
      job.train(whole.steps_after - part.steps_after);
      EXPECT_EQ(job.model.values(), expected.values) << ranks << " ranks";
    });
}

TEST(StaggeredRefresh, OfAnAddedGroupLeavesTheOthersAsTheyWere) {
  const auto alone = single_rank_communicator();
  LateJob grown(*alone, {}), same(*alone, {});
  for (LateJob* const job : {&grown, &same}) job->train(4);
  grown.add();
  for (LateJob* const job : {&grown, &same}) job->train(9);

  const auto values = grown.model.values(), undisturbed = same.model.values();
  for (std::size_t t = 0; t < 4; ++t) EXPECT_EQ(values[t], undisturbed[t]) << t;
  EXPECT_NE(values[4], undisturbed[4]);
}

TEST(StaggeredRefresh, TakesTurnsFromTheFirstRefreshOn) {
  ToyModel<float> model({{32, 32}});  // 16 blocks of 8 x 8, 32 roots
  Recipe recipe = quick_recipe();
  recipe.refresh = {.every = 4, .first = 6};
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, {model.group(recipe)});

  std::vector<std::int64_t> refreshes;
  for (int step = 1; step <= 10; ++step) {
    const std::int64_t before = optimizer.statistics().refreshes;
    optimizer.prepare_step();
    EXPECT_EQ(optimizer.refresh_is_due(), step > 2);
    optimizer.enqueue_step();
    refreshes.push_back(optimizer.statistics().refreshes - before);
  }

  EXPECT_EQ(refreshes, (std::vector<std::int64_t>{0, 0, 8, 8, 8, 8, 8, 8, 8, 8}));
}

/// Steps of a model whose only refresh is far away; then another schedule takes over.
LoadReport load_with_earlier_refresh(const Preconditioner& kind, const std::optional<Diagonal>& by,
                                     bool derived, std::map<std::string, std::string>& loaded) {
  Trainee trainee = small;
  trainee.recipes[0].preconditioner = kind;
  trainee.recipes[0].grafting = by;
  trainee.recipes[0].refresh = {.every = 3, .first = 50};
  const auto alone = single_rank_communicator();
  Job<float> late(*alone, trainee, {});
  late.train(0, 7);
  trainee.recipes[0].refresh.first = 2;
  Job<float> early(*alone, trainee, {});
  const LoadReport report = early.optimizer->load_state_dict(
      late.optimizer->state_dict({.derived = derived}), {.keep_recipes = true});
  for (const StateTensor& tensor : early.optimizer->state_dict().tensors)
    loaded[tensor.name()] =
        std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return report;
}

TEST(StaggeredRefresh, ThatIsBehindABlockOfTheStateDictOnlyHereIsMadeWithTheLoad) {
  std::map<std::string, std::string> refreshed, recomputed;
  const LoadReport with = load_with_earlier_refresh(RootInverse{}, Adam{}, true, refreshed);
  const LoadReport without = load_with_earlier_refresh(RootInverse{}, Adam{}, false, recomputed);

  EXPECT_FALSE(with.recomputed.empty());
  EXPECT_EQ(with.recomputed, without.recomputed);
  EXPECT_EQ(refreshed, recomputed);
}

TEST(StaggeredRefresh, MadeWithALoadIsForKindsThatWaitForIt) {
  std::map<std::string, std::string> tensors;
  EXPECT_FALSE(
      load_with_earlier_refresh(Eigendecomposed{}, Adam{}, true, tensors).recomputed.empty());
  const std::string basis = tensors.at("tensor0/basis/0/0.0");
  EXPECT_FALSE(
      load_with_earlier_refresh(EigenvalueCorrected{}, Adam{}, true, tensors).recomputed.empty());
  EXPECT_TRUE(load_with_earlier_refresh(EigenvalueCorrected{}, std::nullopt, true, tensors)
                  .recomputed.empty());
  EXPECT_NE(tensors.at("tensor0/basis/0/0.0"), basis) << "the identity";
}

}  // namespace
}  // namespace shampoo::test
