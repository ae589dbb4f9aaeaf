// SPDX-License-Identifier: Apache-2.0
#include "distributor/exchange.h"

#include <gtest/gtest.h>

#include <cstring>

#include "distributor/communicator.h"
#include "kernels/backend.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

TEST(OneRank, IsAloneAndCompletesAtOnce) {
  const auto ranks = single_rank_communicator();
  std::vector<char> bytes{1, 2, 3};
  const std::vector<std::int64_t> counts{3};

  ranks->all_gather(bytes.data(), counts).wait();

  EXPECT_EQ(ranks->rank(), 0);
  EXPECT_EQ(ranks->size(), 1);
  EXPECT_EQ(bytes, (std::vector<char>{1, 2, 3}));
}

TEST(OneRank, RefusesCountsOfOtherRanks) {
  const auto ranks = single_rank_communicator();
  char byte = 0;
  EXPECT_THROW((void)ranks->all_gather(&byte, std::vector<std::int64_t>{1, 1}),
               std::invalid_argument);
}

TEST(Exchange, CarriesHeadersAndSegmentsOfAllRanksEmptyOnesToo) {
  run_ranks(3, [](Communicator& ranks) {
    const auto backend = cpu_kernels({.threads = 1});
    // Rank 1 has nothing but its header.
    Exchange exchange(*backend, ranks, {64 + 64, 64, 64 + 192});
    char* const all = static_cast<char*>(exchange.data());
    if (ranks.rank() == 0) std::memset(all + 64, 'a', 64);
    if (ranks.rank() == 2) std::memset(all + 64 + 64 + 64 + 64, 'c', 192);
    const kernels::ScanResult scan{
        .proceed = 1, .first_bad = -1, .squared_norm = ranks.rank() + 1.5};

    exchange.write({.scan = scan, .step = 7, .plan = 10u + static_cast<unsigned>(ranks.rank())});
    exchange.run();
    const std::span<const SegmentHeader> headers = exchange.headers();

    ASSERT_EQ(headers.size(), 3u);
    for (unsigned r = 0; r < 3; ++r) {
      EXPECT_EQ(headers[r].step, 7);
      EXPECT_EQ(headers[r].plan, 10 + r);
      EXPECT_EQ(headers[r].scan.squared_norm, r + 1.5);
    }
    EXPECT_EQ(std::string(all + 64, 64), std::string(64, 'a'));
    EXPECT_EQ(std::string(all + 256, 192), std::string(192, 'c'));
  });
}

TEST(Exchange, SharesItsBufferWithAnotherOne) {
  run_ranks(2, [](Communicator& ranks) {
    const auto backend = cpu_kernels({.threads = 1});
    Exchange first(*backend, ranks, {64, 64}, 320);
    EXPECT_EQ(first.bytes(), 320);
    Exchange second(first, {64 + 192, 64});
    EXPECT_EQ(second.data(), first.data());
    char* const all = static_cast<char*>(second.data());
    if (ranks.rank() == 0) std::memset(all + 64, 'a', 192);
    second.write({.step = 3, .plan = 10u + static_cast<unsigned>(ranks.rank())});
    second.run();
    EXPECT_EQ(second.headers()[1].plan, 11);
    EXPECT_EQ(std::string(all + 64, 192), std::string(192, 'a'));
    EXPECT_THROW(Exchange(first, {64 + 256, 64}), std::invalid_argument);
    EXPECT_THROW(Exchange(first, {64}), std::invalid_argument);
  });
}

TEST(Exchange, RefusesOtherMemoryAndOtherNumbersOfRanksAndSegmentsWithoutHeader) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  const auto elsewhere = single_rank_communicator(MemoryKind::cuda);

  EXPECT_THROW(Exchange(*backend, *elsewhere, {64}), std::invalid_argument);
  EXPECT_THROW(Exchange(*backend, *ranks, {64, 64}), std::invalid_argument);
  EXPECT_THROW(Exchange(*backend, *ranks, {}), std::invalid_argument);
  EXPECT_THROW(Exchange(*backend, *ranks, {63}), std::invalid_argument);
}

}  // namespace
}  // namespace shampoo::test
