// SPDX-License-Identifier: Apache-2.0
#include "distributor/exchange.h"

#include <gtest/gtest.h>

#include "kernels/cpu_backend.h"

namespace shampoo::test {
namespace {

TEST(OneRank, IsAloneAndCompletesAtOnce) {
  const auto ranks = one_rank();
  std::vector<char> bytes{1, 2, 3};
  const std::vector<std::int64_t> counts{3};

  ranks->all_gather(bytes.data(), counts, {}).wait();

  EXPECT_EQ(ranks->rank(), 0);
  EXPECT_EQ(ranks->size(), 1);
  EXPECT_EQ(bytes, (std::vector<char>{1, 2, 3}));
}

TEST(OneRank, RefusesCountsOfOtherRanks) {
  const auto ranks = one_rank();
  char byte = 0;
  EXPECT_THROW(ranks->all_gather(&byte, std::vector<std::int64_t>{1, 1}, {}),
               std::invalid_argument);
}

TEST(Exchange, HasASegmentForEveryRank) {
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = one_rank();

  Exchange exchange(*backend, *ranks, {48});
  static_cast<char*>(exchange.data())[47] = 7;
  exchange.run();

  EXPECT_EQ(exchange.bytes(), 48);
  EXPECT_EQ(exchange.segment_begin(0), 0);
  EXPECT_EQ(static_cast<char*>(exchange.data())[47], 7);
}

TEST(Exchange, RefusesOtherMemoryAndOtherNumbersOfRanks) {
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = one_rank();
  const auto elsewhere = one_rank(Memory::cuda);

  EXPECT_THROW(Exchange(*backend, *elsewhere, {8}), std::invalid_argument);
  EXPECT_THROW(Exchange(*backend, *ranks, {8, 8}), std::invalid_argument);
  EXPECT_THROW(Exchange(*backend, *ranks, {}), std::invalid_argument);
}

}  // namespace
}  // namespace shampoo::test
