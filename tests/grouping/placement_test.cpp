// SPDX-License-Identifier: Apache-2.0
#include "grouping/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>

#include "grouping/planned_group.h"
#include "tests/grouping/sample_groups.h"
#include "tests/support/models.h"

namespace shampoo::grouping {
namespace {

constexpr std::int64_t largest_number = std::numeric_limits<std::int64_t>::max();

std::vector<Work> bytes(const std::vector<std::int64_t>& sizes) {
  std::vector<Work> works;
  works.reserve(sizes.size());
  for (std::int64_t size : sizes) works.push_back({size, size, 0});
  return works;
}

Work largest(const std::vector<Work>& ranks) {
  Work most;
  for (const Work& rank : ranks)
    most = {std::max(most.cost, rank.cost), std::max(most.bytes, rank.bytes),
            std::max(most.state, rank.state)};
  return most;
}

/// The lower bound by its definition, as a fraction: the mean is not rounded.
std::int64_t bound_times_ranks(std::vector<std::int64_t> sizes, int ranks) {
  std::sort(sizes.rbegin(), sizes.rend());
  std::int64_t bound = 0;
  for (std::int64_t size : sizes) bound += size;
  for (std::size_t j = 0; j * ranks + 1 <= sizes.size(); ++j) {
    std::int64_t smallest = 0;
    for (std::size_t i = j * ranks - j; i <= j * ranks; ++i) smallest += sizes[i];
    bound = std::max(bound, smallest * ranks);
  }
  return bound;
}

TEST(LowerBound, IsTheMeanForManyEqualSizes) {
  EXPECT_EQ(lower_bound({3, 3, 3, 3}, 2), 6);
  EXPECT_EQ(lower_bound({1, 1, 1, 1, 1, 0}, 2), 3);
}

TEST(LowerBound, IsTheLargestSizeWhereThatDominates) {
  EXPECT_EQ(lower_bound({2, 100, 3}, 3), 100);
}

TEST(LowerBound, CountsTheBlocksThatMustShareARank) {
  EXPECT_EQ(lower_bound({5, 5, 5}, 2), 10);           // of 3, two share a rank
  EXPECT_EQ(lower_bound({9, 4, 4, 4, 4, 1}, 2), 13);  // the mean
  EXPECT_EQ(lower_bound({5, 5, 4, 4, 4}, 2), 12);     // of 5, three share a rank
}

TEST(LowerBound, HoldsForNoSizesAndForTheLargestSum) {
  EXPECT_EQ(lower_bound({}, 7), 0);
  EXPECT_EQ(lower_bound({largest_number}, 1), largest_number);
  EXPECT_EQ(lower_bound({largest_number - 1, 1}, 2), largest_number - 1);
  EXPECT_THROW(lower_bound({1}, 0), std::invalid_argument);
}

TEST(Place, FollowsTheReferenceForOneCriterion) {
  // The sizes of the last row are the squares of 256, 128, 384, 256.
  EXPECT_EQ(place(bytes({128, 64, 500, 256}), 2), (std::vector<int>{1, 1, 0, 1}));
  EXPECT_EQ(place(bytes({128, 64}), 4), (std::vector<int>{0, 1}));
  EXPECT_EQ(place(bytes({65536, 16384, 147456, 65536}), 2), (std::vector<int>{1, 1, 0, 1}));
  EXPECT_EQ(place(bytes({}), 3), std::vector<int>{});
}

TEST(Place, GivesEverythingToTheOnlyRank) {
  EXPECT_EQ(place(bytes({1, 0, 5}), 1), (std::vector<int>{0, 0, 0}));
}

TEST(Place, GivesBlocksWithoutWorkToTheFirstRank) {
  EXPECT_EQ(place(std::vector<Work>(3), 2), (std::vector<int>{0, 0, 0}));
}

class PlaceModel : public testing::TestWithParam<std::tuple<std::string, int>> {};

std::string name_of(const testing::TestParamInfo<PlaceModel::ParamType>& info) {
  std::string name =
      std::get<0>(info.param) + "_on_" + std::to_string(std::get<1>(info.param)) + "_ranks";
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

TEST_P(PlaceModel, StaysWithinFivePercentOfTheLowerBounds) {
  const auto [model, ranks] = GetParam();
  std::vector<Work> works;
  std::vector<std::int64_t> costs, sent;
  const PlannedGroup all = test::groups_of(model, 1)[0];
  for (const PlannedParameter& parameter : all.parameters)
    for (const BlockWork& block : parameter.blocks) works.push_back(block.work);
  for (const Work& work : works) {
    costs.push_back(work.cost);
    sent.push_back(work.bytes);
  }

  const std::vector<int> owners = place(works, ranks);

  ASSERT_EQ(owners.size(), works.size());
  const Work most = largest(loads(works, owners, ranks));
  const std::int64_t cost_bound = bound_times_ranks(costs, ranks);
  const std::int64_t bytes_bound = bound_times_ranks(sent, ranks);
  RecordProperty("cost_per_mille", std::to_string(most.cost * ranks / (cost_bound / 1000)));
  RecordProperty("bytes_per_mille", std::to_string(most.bytes * ranks * 1000 / bytes_bound));
  EXPECT_LE(most.cost * ranks, cost_bound + cost_bound / 20);
  EXPECT_LE(most.bytes * ranks, bytes_bound + bytes_bound / 20);
  // The state is no goal of its own, but no rank should run out of memory before the others.
  EXPECT_LE(most.state, lower_bounds(works, ranks).state * 11 / 10);
}

INSTANTIATE_TEST_SUITE_P(EveryModel, PlaceModel,
                         testing::Combine(testing::ValuesIn(std::vector<std::string>(
                                              test::model_names.begin(), test::model_names.end())),
                                          testing::Values(2, 4, 8, 32)),
                         name_of);

TEST(Place, LetsBytesExceedTheCapOnlyWhereNoRankHasRoom) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 1000; ++trial) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    std::vector<Work> works(60);
    for (int b = 0; b < 60; ++b)
      works[b] = {static_cast<std::int64_t>(random() % 1000), 1 + b % 2, 0};

    const std::vector<int> owners = place(works, ranks, {}, 10);

    // 90 bytes in all. Before a block of 2 the idlest rank has at most 88 / ranks, and there is
    // room for it there: 88 / ranks + 2 <= 1.1 * 90 / ranks for up to 5 ranks.
    const std::int64_t bound = lower_bounds(works, ranks).bytes;
    EXPECT_LE(largest(loads(works, owners, ranks)).bytes, bound + bound / 10) << "trial " << trial;
  }
}

TEST(Place, TradesPaddingForCost) {
  // One block costs as much as all others and sends nothing; the others send and cost nothing.
  std::vector<Work> works = {{100, 0, 0}, {60, 30, 0}, {40, 10, 0}};

  const Work tight = largest(loads(works, place(works, 2, {}, 0), 2));
  const Work loose = largest(loads(works, place(works, 2, {}, 100), 2));

  EXPECT_EQ(tight.bytes, 30);
  EXPECT_EQ(tight.cost, 140);
  EXPECT_EQ(loose.bytes, 40);
  EXPECT_EQ(loose.cost, 100);
}

TEST(Place, WeighsBytesAndStateBesideCost) {
  // By cost alone the last block would go to rank 0, which has all of the bytes or the state.
  const std::vector<Work> sent = {{0, 10, 0}, {2, 0, 0}, {5, 10, 0}};
  const std::vector<Work> kept = {{0, 0, 10}, {2, 0, 0}, {5, 0, 10}};
  const std::vector<int> before = {0, 1};

  EXPECT_EQ(place(sent, 2, before, 100), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(place(kept, 2, before, 100), (std::vector<int>{0, 1, 1}));
}

TEST(Place, LevelsRefreshesOfAStepFirst) {
  // Two steps with two refreshes each. By cost alone, ranks would take turns.
  const std::vector<Work> works(4, {10, 10, 10});
  const std::vector<BlockRefresh> refreshes = {{8, 2, 0}, {8, 2, 1}, {8, 2, 0}, {8, 2, 1}};

  EXPECT_EQ(place(works, 2), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(place(works, 2, {}, 4, refreshes), (std::vector<int>{0, 1, 1, 0}));
}

TEST(Place, CountsRefreshesOfOwnersThatItKeeps) {
  const std::vector<Work> works = {{9, 9, 9}, {9, 9, 9}, {9, 9, 9}, {9, 9, 9}};
  const std::vector<BlockRefresh> refreshes = {{8, 2, 0}, {8, 2, 1}, {8, 2, 1}, {8, 2, 0}};
  const std::vector<int> before = {0, 1};

  EXPECT_EQ(place(works, 2, before, 4, refreshes), (std::vector<int>{0, 1, 0, 1}));
}

TEST(Place, HoldsForMorePhasesThanItTellsApart) {
  constexpr std::int64_t interval = std::int64_t{1} << 40;
  std::vector<BlockRefresh> refreshes;
  for (std::int64_t b = 0; b < 64; ++b) refreshes.push_back({1, interval, b * (interval / 64)});

  const std::vector<int> owners =
      place(bytes(std::vector<std::int64_t>(64, 1)), 4, {}, 4, refreshes);

  EXPECT_EQ(largest(loads(bytes(std::vector<std::int64_t>(64, 1)), owners, 4)).cost, 16);
}

TEST(Place, KeepsOwnersAndFillsTheIdleRanks) {
  const std::vector<Work> works = bytes({10, 10, 10, 6, 4});
  const std::vector<int> before = {0, 0, 0};

  const std::vector<int> owners = place(works, 3, before);

  EXPECT_EQ(owners, (std::vector<int>{0, 0, 0, 1, 2}));
}

TEST(Place, IsSafeFromOverflow) {
  const std::vector<Work> works = {
      {largest_number - 2, largest_number - 1, largest_number}, {1, 1, 0}, {1, 0, 0}};

  const std::vector<int> owners = place(works, 2);

  EXPECT_EQ(owners[0], 0);
  EXPECT_EQ(owners[1], 1);
}

TEST(Place, RefusesWhatItCannotPlace) {
  EXPECT_THROW(place(bytes({1}), 0), std::invalid_argument);
  EXPECT_THROW(place(bytes({1}), -3), std::invalid_argument);
  EXPECT_THROW(place(bytes({1}), 2, {}, -1), std::invalid_argument);
  EXPECT_THROW(place(bytes({1, -1}), 2), std::invalid_argument);
  EXPECT_THROW(place(bytes({largest_number, 1}), 2), std::invalid_argument);
  EXPECT_THROW(place(bytes({1}), 2, std::vector<int>{2}), std::invalid_argument);
  EXPECT_THROW(place(bytes({1}), 2, std::vector<int>{-1}), std::invalid_argument);
  EXPECT_THROW(place(bytes({1}), 2, std::vector<int>{0, 0}), std::invalid_argument);
  const auto refuses = [](const std::vector<BlockRefresh>& refreshes) {
    EXPECT_THROW(place(bytes({1, 1}), 2, {}, 4, refreshes), std::invalid_argument);
  };
  refuses({{1, 1, 0}});
  refuses({{-1, 1, 0}, {1, 1, 0}});
  refuses({{largest_number, 1, 0}, {1, 1, 0}});
  refuses({{1, 0, 0}, {1, 1, 0}});
  refuses({{1, 2, 2}, {1, 1, 0}});
  refuses({{1, 2, -1}, {1, 1, 0}});
}

}  // namespace
}  // namespace shampoo::grouping
