// SPDX-License-Identifier: Apache-2.0
// How what joining takes grows with the number of ranks. Counts, not times.
#include <gtest/gtest.h>

#include "distributor/transports/gloo/gloo.h"
#include "joining_ranks.h"

namespace shampoo::test {
namespace {

TEST(JoinGrowth, RegisteringTakesAsMuchOfEachRankWhateverTheirNumber) {
  for (const int ranks : {16, 64, 256}) {
    const StoreStatistics store = join_ranks(ranks, JoinStage::registered).store;
    const auto n = static_cast<std::uint64_t>(ranks);
    EXPECT_EQ(store.accepted, n) << ranks;
    EXPECT_LE(store.requests, 24 * n) << ranks;
    EXPECT_LE(store.bytes_received, 1500 * n) << ranks;
    EXPECT_LE(store.bytes_sent, 600 * n) << ranks;
    EXPECT_LE(store.keys, n + 8) << ranks;
    EXPECT_LE(store.most_bytes, 600 * n) << ranks;
  }
}

TEST(JoinGrowth, ConnectingOverGlooTakesTheLogarithmOfTheirNumberOfEachRank) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  int logarithm = 4;
  for (const int ranks : {16, 64}) {
    const JoinCosts costs = join_ranks(ranks, JoinStage::connected);
    const auto n = static_cast<std::uint64_t>(ranks), near = std::uint64_t(2 * logarithm);
    EXPECT_LE(costs.store.requests, (40 + 2 * near) * n) << ranks;
    EXPECT_LE(costs.store.bytes_sent, (1000 + 60 * near * near) * n) << ranks;
    EXPECT_LE(costs.store.keys, n + 8) << "addresses are removed: " << ranks;
    EXPECT_LE(costs.descriptors, (near + 8) * n) << ranks;
    logarithm += 2;
  }
}

TEST(JoinGrowth, AnAllToAllConnectsAllRanks) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  for (const int ranks : {2, 3, 5, 8, 24}) {
    const JoinCosts costs = join_ranks(ranks, JoinStage::connected, true);
    EXPECT_GE(costs.descriptors, static_cast<std::size_t>(ranks * (ranks - 1))) << ranks;
  }
}

}  // namespace
}  // namespace shampoo::test
