// SPDX-License-Identifier: Apache-2.0
// The communicator of NCCL over an NCCL that is played on threads; see nccl_device_test.cpp for the
// real one.
#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <vector>

#include "distributor/exchange.h"
#include "kernels/cuda/device_backend.h"
#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/nccl/nccl_ranks.h"
#include "tests/support/device/emulated_device.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Counts = std::vector<std::int64_t>;

class RanksOfNccl : public testing::TestWithParam<int> {};

TEST_P(RanksOfNccl, ConformAndSumAsThreadsDo) {
  std::vector<int> as_threads(static_cast<std::size_t>(GetParam()));
  run_nccl_ranks(GetParam(), 30s, [&](NcclRank& rank) {
    PlayedMemory memory(rank.nccl);
    EXPECT_EQ(rank.ranks->memory(), MemoryKind::cuda);
    EXPECT_EQ(rank.ranks->local_rank(), rank.ranks->rank());
    const std::uint64_t sums = conform(*rank.ranks, memory);
    as_threads[rank.ranks->rank()] =
        sums == checksum_of_threads(rank.ranks->rank(), rank.ranks->size());
    EXPECT_EQ(rank.nccl.counts.aborts, 0);
    rank.ranks.reset();
    rank.host.barrier().wait();
  });
  EXPECT_EQ(std::ranges::count(as_threads, 1), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Of, RanksOfNccl, testing::Values(1, 2, 3, 5),
                         testing::PrintToStringParamName());

TEST(Nccl, GathersInOneLaunchAndInPlace) {
  run_nccl_ranks(3, 30s, [](NcclRank& rank) {
    auto& counts = rank.nccl.counts;
    std::vector<char> everyone(64);
    const auto gather = [&](const Counts& sizes) {
      const int before = counts.launches;
      rank.ranks->all_gather(everyone.data(), sizes).wait();
      rank.nccl.stream().synchronize();
      return counts.launches - before;
    };
    EXPECT_EQ(gather({8, 8, 8}), 1);
    EXPECT_EQ(counts.all_gathers, 1);
    EXPECT_EQ(counts.broadcasts, 0);
    EXPECT_EQ(gather({8, 0, 7}), 1);
    EXPECT_EQ(counts.all_gathers, 1);
    EXPECT_EQ(counts.broadcasts, 2) << "ranks without bytes send none";
    EXPECT_EQ(gather({0, 0, 0}), 0);
    rank.host.barrier().wait();
  });
}

TEST(Nccl, TheHostDoesNotWait) {
  std::latch come_back(1);
  run_nccl_ranks(2, 30s, [&](NcclRank& rank) {
    std::vector<char> everyone{'a', 'b'};
    if (rank.ranks->rank() == 1) {
      everyone[0] = '?';
      come_back.wait();  // for ever, if rank 0 waited for this rank
    } else {
      everyone[1] = '?';
    }
    rank.ranks->all_gather(everyone.data(), Counts{1, 1}).wait();
    if (rank.ranks->rank() == 0) come_back.count_down();
    rank.nccl.stream().synchronize();
    EXPECT_EQ(everyone, (std::vector<char>{'a', 'b'}));
    rank.ranks->check();
    rank.host.barrier().wait();
  });
}

TEST(Nccl, ACollectiveRunsBehindEarlierAndBeforeLaterWorkOfTheStream) {
  run_nccl_ranks(2, 30s, [](NcclRank& rank) {
    std::vector<int> everyone(2), seen;
    StreamDouble& stream = rank.nccl.stream();
    for (int step = 1; step <= 20; ++step) {
      stream.push([&, step] { everyone[rank.ranks->rank()] = 10 * step + rank.ranks->rank(); });
      rank.ranks->all_gather(everyone.data(), Counts{4, 4}).wait();
      stream.push([&] { seen.push_back(everyone[0] + everyone[1]); });
    }
    stream.synchronize();
    for (int step = 1; step <= 20; ++step) EXPECT_EQ(seen[step - 1], 20 * step + 1);
    EXPECT_LE(rank.nccl.counts.events, 2 * 21 + 2);
    rank.host.barrier().wait();
  });
}

TEST(Nccl, ALeaseIsHeldUntilTheStreamIsDone) {
  std::latch looked(1);
  run_nccl_ranks(2, 30s, [&](NcclRank& rank) {
    auto owner = std::make_shared<std::vector<char>>(2);
    const std::weak_ptr<std::vector<char>> lent = owner;
    if (rank.ranks->rank() == 1) looked.wait();
    rank.ranks->all_gather(owner->data(), Counts{1, 1}, {.keep_alive = owner}).wait();
    owner.reset();
    if (rank.ranks->rank() == 0) {
      EXPECT_FALSE(lent.expired());
      looked.count_down();
    }
    rank.nccl.stream().synchronize();
    rank.ranks->barrier().wait();
    rank.ranks->barrier().wait();
    EXPECT_TRUE(lent.expired());
    rank.host.barrier().wait();
  });
}

TEST(Nccl, ALeaseDoesNotEndWhileAStreamIsCaptured) {
  run_nccl_ranks(1, 30s, [](NcclRank& rank) {
    StreamDouble& stream = rank.nccl.stream();
    char byte = 0;
    const auto gather = [&] { rank.ranks->all_gather(&byte, Counts{1}).wait(); };
    auto keep_alive = std::make_shared<char>();
    const std::weak_ptr<char> leased = keep_alive;
    CollectiveHandle first =
        rank.ranks->all_gather(keep_alive.get(), Counts{1}, {.keep_alive = keep_alive});
    keep_alive.reset();
    gather();
    stream.synchronize();
    gather();  // finds that the first is done
    first.wait();
    stream.begin_capture();
    gather();
    rank.nccl.end_capture(stream);
    EXPECT_FALSE(leased.expired()) << "freeing memory would invalidate the capture";
    gather();
    EXPECT_TRUE(leased.expired());
  });
}

TEST(Nccl, ACapturedCollectiveIsReplayedAndNobodyAsksForItsEvents) {
  run_nccl_ranks(2, 2s, [](NcclRank& rank) {
    std::vector<int> everyone(2);
    StreamDouble& stream = rank.nccl.stream();
    int step = 0;
    rank.ranks->all_gather(everyone.data(), Counts{4, 4}).wait();
    stream.synchronize();
    stream.begin_capture();
    stream.push([&] { everyone[rank.ranks->rank()] = 100 * step + rank.ranks->rank(); });
    rank.ranks->all_gather(everyone.data(), Counts{4, 4}).wait();
    const auto graph = rank.nccl.end_capture(stream);
    for (step = 1; step <= 20; ++step) {
      rank.nccl.replay(graph);
      rank.ranks->watch({});
      stream.synchronize();
      EXPECT_EQ(everyone[0] + everyone[1], 200 * step + 1);
    }
    rank.ranks->all_gather(everyone.data(), Counts{4, 4}).wait();
    stream.synchronize();
    rank.ranks->check();
    rank.host.barrier().wait();
  });
}

TEST(Nccl, MemoryOfTheCommunicatorIsRegisteredForAsLongAsItLives) {
  run_nccl_ranks(1, 30s, [](NcclRank& rank) {
    {
      const auto memory = rank.ranks->allocate(8);
      EXPECT_EQ(std::string(static_cast<const char*>(memory.get()), 8), std::string(8, '\0'));
      EXPECT_EQ(rank.nccl.counts.registrations, 1);
    }
    EXPECT_EQ(rank.nccl.counts.registrations, 0);
    EXPECT_EQ(rank.nccl.counts.registrable, 0);
    const auto kept = rank.ranks->allocate(8);
    rank.ranks->abort("enough");  // and it may go after that
  });
}

TEST(Nccl, ExchangesUseMemoryOfTheCommunicator) {
  run_nccl_ranks(2, 30s, [](NcclRank& rank) {
    kernels::cuda::DeviceBackend backend(std::make_unique<EmulatedDevice>());
    {
      const Exchange exchange(backend, *rank.ranks, {64, 128}, 256);
      EXPECT_NE(exchange.data(), nullptr);
      EXPECT_EQ(exchange.bytes(), 256);
      EXPECT_EQ(rank.nccl.counts.registrations, 1);
    }
    EXPECT_EQ(rank.nccl.counts.registrations, 0);
  });
}

}  // namespace
}  // namespace shampoo::test
