// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/device_reducer.h"

#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "distributor/transports/local/user_transport.h"
#include "distributor/transports/nccl/nccl.h"
#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/nccl/nccl_ranks.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

void average(NcclRank& rank, std::vector<float>& numbers, StreamDouble& stream) {
  rank.ranks->average(
      {TensorSpan{numbers.data(), static_cast<std::int64_t>(numbers.size()), Type::float32}},
      {&stream});
}

TEST(DeviceReducer, OnTwoStreamsTakeTurns) {
  run_nccl_ranks(2, 30s, [](NcclRank& rank) {
    StreamDouble &one = rank.nccl.other_stream(), &two = rank.nccl.other_stream();
    const auto own = static_cast<float>(rank.ranks->rank());
    std::vector<float> a(1000, 10 + own), b(1000, 100 + own);
    std::latch written(1);
    one.push([&] { written.wait(); });
    average(rank, a, one);
    average(rank, b, two);
    written.count_down();
    one.synchronize();
    two.synchronize();
    EXPECT_EQ(a, std::vector<float>(1000, 10.5f));
    EXPECT_EQ(b, std::vector<float>(1000, 100.5f));
    rank.ranks->check();
    rank.host.barrier().wait();
  });
}

TEST(DeviceReducer, OfReplaysTakeTurnsWithThoseOfOtherStreams) {
  run_nccl_ranks(2, 30s, [](NcclRank& rank) {
    StreamDouble &one = rank.nccl.other_stream(), &two = rank.nccl.other_stream();
    const auto own = static_cast<float>(rank.ranks->rank());
    std::vector<float> a(1000), b(1000), c(1000);
    average(rank, a, two);
    two.synchronize();
    one.begin_capture();
    average(rank, a, one);
    average(rank, b, one);
    const auto graph = rank.nccl.end_capture(one);
    for (int replay = 0; replay < 3; ++replay) {
      a.assign(1000, 10 + own);
      b.assign(1000, 100 + own);
      c.assign(1000, 1000 + own);
      std::latch written(1);
      one.push([&] { written.wait(); });
      NcclDouble::replay(graph, one);
      average(rank, c, two);
      written.count_down();
      one.synchronize();
      two.synchronize();
      EXPECT_EQ(a, std::vector<float>(1000, 10.5f));
      EXPECT_EQ(b, std::vector<float>(1000, 100.5f));
      EXPECT_EQ(c, std::vector<float>(1000, 1000.5f));
    }
    rank.ranks->check();
    rank.host.barrier().wait();
  });
}

TEST(DeviceReducer, OfTwoStreamsMayBeInOneCapture) {
  run_nccl_ranks(2, 30s, [](NcclRank& rank) {
    StreamDouble &one = rank.nccl.other_stream(), &two = rank.nccl.other_stream();
    const auto own = static_cast<float>(rank.ranks->rank());
    std::vector<float> a(1000), b(1000);
    average(rank, a, one);
    one.synchronize();
    one.begin_capture();
    const auto fork = std::make_shared<EventState>();
    one.record(fork);
    two.wait(fork);
    average(rank, a, one);
    average(rank, b, two);
    const auto graph = rank.nccl.end_capture(one);
    a.assign(1000, 10 + own);
    b.assign(1000, 100 + own);
    rank.nccl.replay(graph);
    rank.nccl.stream().synchronize();
    EXPECT_EQ(a, std::vector<float>(1000, 10.5f));
    EXPECT_EQ(b, std::vector<float>(1000, 100.5f));
    rank.host.barrier().wait();
  });
}

TEST(DeviceReducer, KeepTheScratchMemoryOfGraphsWhenItGrows) {
  run_nccl_ranks(2, 30s, [](NcclRank& rank) {
    StreamDouble& stream = rank.nccl.stream();
    const auto own = static_cast<float>(rank.ranks->rank());
    std::vector<float> a(1000), longer(5000, 1 + own), longest(7000, 1 + own);
    const int others = rank.nccl.counts.allocations;
    average(rank, a, stream);
    stream.synchronize();
    stream.begin_capture();
    average(rank, a, stream);
    const auto graph = rank.nccl.end_capture(stream);
    average(rank, longer, stream);
    EXPECT_EQ(rank.nccl.counts.allocations, others + 4) << "two that the graph uses, two longer";
    average(rank, longest, stream);
    EXPECT_EQ(rank.nccl.counts.allocations, others + 4);
    stream.synchronize();
    a.assign(1000, 10 + own);
    rank.nccl.replay(graph);
    stream.synchronize();
    EXPECT_EQ(a, std::vector<float>(1000, 10.5f));
    rank.ranks.reset();
    EXPECT_EQ(rank.nccl.counts.allocations, 0);
    rank.host.barrier().wait();
  });
}

/// Collectives of the caller in the memory of the device, queued on the stream of the call.
Collectives queued_on_streams(Communicator& host, NcclDouble& device) {
  const auto queue = [&device](const CallContext& context, const std::function<void()>& work) {
    void* const stream = context.stream.handle;
    (stream ? *static_cast<StreamDouble*>(stream) : device.stream()).push(work);
  };
  const auto copy = [](Communicator::Counts counts) {
    return std::vector<std::int64_t>(counts.begin(), counts.end());
  };
  Collectives calls{.rank_info = {host.rank(), host.size(), host.rank(), MemoryKind::cuda}};
  calls.all_gather = [=, &host](void* data, auto counts, const CallContext& context) {
    queue(context, [&host, data, sizes = copy(counts)] { host.all_gather(data, sizes).wait(); });
  };
  calls.all_to_all = [=, &host](const void* send, auto send_counts, void* receive,
                                auto receive_counts, const CallContext& context) {
    queue(context, [&host, send, receive, from = copy(send_counts), to = copy(receive_counts)] {
      host.all_to_all(send, from, receive, to).wait();
    });
  };
  calls.broadcast = [=, &host](void* data, std::int64_t bytes, int root,
                               const CallContext& context) {
    queue(context, [=, &host] { host.broadcast(data, bytes, root).wait(); });
  };
  calls.barrier = [=, &host](const CallContext& context) {
    queue(context, [&host] { host.barrier().wait(); });
  };
  return calls;
}

TEST(DeviceReducer, ServesCollectivesOfTheCaller) {
  constexpr int size = 3;
  std::vector<int> as_threads(size);
  run_ranks(size, [&](Communicator& host) {
    NcclJob nobody;
    const auto device = std::make_shared<NcclDouble>(nobody, "device");
    PlayedMemory memory(*device);
    const auto ranks = user_communicator(queued_on_streams(host, *device), [&](const void*) {
      return std::make_shared<DeviceReducer>(device);
    });
    as_threads[host.rank()] =
        conform(*ranks, memory, false) == checksum_of_threads(host.rank(), size);
  });
  EXPECT_EQ(as_threads, std::vector<int>(size, 1));
}

TEST(DeviceReducer, IsThereForCollectivesOfTheCallerInBuildsWithCuda) {
  Collectives calls{.rank_info = {0, 2, 0, MemoryKind::cuda}};
  calls.all_gather = [](void*, auto, const CallContext&) {};
  calls.all_to_all = [](const void*, auto, void*, auto, const CallContext&) {};
  calls.barrier = [](const CallContext&) {};
  float number = 0;
  std::string error;
  const auto ranks = user_communicator(calls);
  try {
    ranks->all_reduce(&number, 1, Type::float32);
  } catch (const std::exception& thrown) {  // CUDA's, without a device
    error = thrown.what();
  }
  EXPECT_EQ(error.starts_with("reductions: "), !has_nccl()) << error;
}

}  // namespace
}  // namespace shampoo::test
