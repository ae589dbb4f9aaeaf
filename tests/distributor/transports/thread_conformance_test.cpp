// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "distributor/communicator.h"
#include "tests/distributor/transports/conformance.h"

namespace shampoo::test {
namespace {

class RanksOnThreads : public testing::TestWithParam<int> {};

TEST_P(RanksOnThreads, Conform) {
  std::vector<std::uint64_t> checksums(static_cast<std::size_t>(GetParam()));
  ASSERT_NO_THROW(run_ranks(
      GetParam(), [&](Communicator& ranks) { checksums[ranks.rank()] = conform(ranks); }));
  EXPECT_EQ(std::ranges::count(checksums, std::uint64_t{0}), 0);
}

/// The callbacks hand on to another communicator; `all` of them, or only the one that must be.
Collectives forwarding(Communicator& ranks, bool all) {
  Collectives calls{.rank_info = {ranks.rank(), ranks.size(), ranks.local_rank()}};
  calls.all_gather = [&](void* everyone, std::span<const std::int64_t> counts, const CallContext&) {
    ranks.all_gather(everyone, counts).wait();
  };
  if (!all) return calls;
  calls.all_to_all = [&](const void* send, std::span<const std::int64_t> send_counts, void* receive,
                         std::span<const std::int64_t> receive_counts, const CallContext&) {
    ranks.all_to_all(send, send_counts, receive, receive_counts).wait();
  };
  calls.broadcast = [&](void* data, std::int64_t bytes, int root, const CallContext&) {
    ranks.broadcast(data, bytes, root).wait();
  };
  calls.barrier = [&](const CallContext&) { ranks.barrier().wait(); };
  calls.split = [&](std::span<const int> members, int color) {
    const auto place = std::ranges::find(members, ranks.rank()) - members.begin();
    return ranks.split(members.empty() ? -1 : color, static_cast<int>(place));
  };
  return calls;
}

TEST_P(RanksOnThreads, ConformThroughCallbacks) {
  std::vector<int> as_threads(static_cast<std::size_t>(GetParam()), 0);
  ASSERT_NO_THROW(run_ranks(GetParam(), [&](Communicator& ranks) {
    const auto own = user_communicator(forwarding(ranks, true));
    as_threads[ranks.rank()] = conform(*own) == checksum_of_threads(ranks.rank(), ranks.size());
  }));
  EXPECT_EQ(std::ranges::count(as_threads, 1), GetParam());
}

TEST_P(RanksOnThreads, ConformThroughTheOnlyCallbackThatMustBe) {
  std::vector<int> as_threads(static_cast<std::size_t>(GetParam()), 0);
  ASSERT_NO_THROW(run_ranks(GetParam(), [&](Communicator& ranks) {
    const auto own = user_communicator(forwarding(ranks, false));
    as_threads[ranks.rank()] =
        conform(*own, false) == checksum_of_threads(ranks.rank(), ranks.size());
  }));
  EXPECT_EQ(std::ranges::count(as_threads, 1), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Of, RanksOnThreads, testing::Values(1, 2, 3, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace shampoo::test
