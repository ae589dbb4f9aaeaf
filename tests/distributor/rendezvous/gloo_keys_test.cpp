// SPDX-License-Identifier: Apache-2.0
// What connecting over Gloo leaves in the store.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "counting_store.h"
#include "distributor/transports/gloo/gloo.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

TEST(GlooKeys, AreRemovedWhenAllRanksAndTheirPartsAreConnected) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  constexpr int ranks = 5;
  const auto keys = std::make_shared<CountingStore>();
  std::vector<int> local_ranks(ranks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto all = gloo_communicator({.rank = rank, .size = ranks, .local_rank = rank}, keys,
                                           {.prefix = "test", .deadline = 20s});
        const auto part = all->split(rank % 2, rank);
        local_ranks[rank] = part->local_rank();
      });
  }

  EXPECT_EQ(local_ranks, (std::vector<int>{0, 0, 1, 1, 2}));
  EXPECT_EQ(keys->size(), 0U);
}

}  // namespace
}  // namespace shampoo::test
