// SPDX-License-Identifier: Apache-2.0
// Ranks connected by NCCL whose store is stopped: the watchdog ends in time all the same.
#include <gtest/gtest.h>

#include "distributor/system/failure_timeout.h"
#include "tests/distributor/transports/nccl/nccl_ranks.h"
#include "tests/support/silent_store.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Counts = std::vector<std::int64_t>;

constexpr int ranks_of_job = 3;
/// So short that a wait of a second for the store would be too long.
constexpr std::chrono::milliseconds deadline = 500ms;

/// Runs body on every rank once all are connected and the store is silent.
void run_ranks_without_a_store(
    const std::shared_ptr<Silence>& silence,
    const std::function<void(Communicator& ranks, NcclDouble& nccl)>& body) {
  const auto store = std::make_shared<MemoryStore>();
  NcclJob job;
  run_ranks(ranks_of_job, [&](Communicator& host) {
    const auto nccl = std::make_shared<NcclDouble>(job, std::to_string(host.rank()));
    {
      const auto ranks = connect_nccl_by_store(std::make_shared<SilentStore>(store, silence),
                                               {.position = {host.rank(), ranks_of_job},
                                                .make_api = [&] { return nccl; },
                                                .deadline = 30s},
                                               "job", "rank 0");
      ranks->set_deadline(deadline);
      host.barrier().wait();
      silence->begin();
      body(*ranks, *nccl);
      host.barrier().wait();
    }
    host.barrier().wait();
  });
}

/// An all_gather, to its end on the stream.
void gather(Communicator& ranks, NcclDouble& nccl) {
  auto parts = std::make_shared<std::vector<char>>(ranks_of_job);
  ranks.all_gather(parts->data(), Counts(ranks_of_job, 1), {.keep_alive = parts}).wait();
  nccl.stream().synchronize();
}

// When the deadline is over the watchdog may be at one request, and then makes one more: each
// shorter than half a second, so that all ends within the deadline and a second.
TEST(NcclWithoutItsStore, NamesACollectiveThatNotAllRanksStart) {
  const auto silence = std::make_shared<Silence>();
  std::atomic<std::int64_t> slowest = 0;
  run_ranks_without_a_store(silence, [&](Communicator& ranks, NcclDouble& nccl) {
    if (ranks.rank() == 1) return;
    const auto start = Clock::now();

    gather(ranks, nccl);

    const auto took = std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - start);
    slowest = std::max(slowest.load(), std::int64_t{took.count()});
    const std::string failure = ranks.failure();
    for (const char* part : {"all_gather (collective 1): not complete within 0.5 s",
                             "nor does the store respond, whose process, rank 0, may be gone"})
      EXPECT_NE(failure.find(part), std::string::npos) << failure;
    EXPECT_EQ(nccl.counts.aborts, 1);
  });
  EXPECT_GT(silence->requests(), 2);
  EXPECT_LE(silence->longest(), failure_detection_timeout(deadline));
  std::printf("the watchdog ended after %lld ms\n", static_cast<long long>(slowest));
}

TEST(NcclWithoutItsStore, AbortsAllTheSame) {
  const auto silence = std::make_shared<Silence>();
  run_ranks_without_a_store(silence, [&](Communicator& ranks, NcclDouble& nccl) {
    if (ranks.rank() != 0) return;

    ranks.abort("enough of it");

    EXPECT_EQ(ranks.failure(), "rank 0 of 3 aborted: enough of it");
    EXPECT_EQ(nccl.counts.aborts, 1);
  });
  EXPECT_EQ(silence->requests(), 1);
  EXPECT_LE(silence->longest(), failure_detection_timeout(deadline));
}

TEST(NcclWithoutItsStore, GoesOnWhereAllRanksStartTheirCollectives) {
  const auto silence = std::make_shared<Silence>();
  run_ranks_without_a_store(silence, [&](Communicator& ranks, NcclDouble& nccl) {
    ranks.set_deadline(30s);
    for (int k = 0; k < 3; ++k) gather(ranks, nccl);
    EXPECT_EQ(ranks.failure(), "");
  });
}

}  // namespace
}  // namespace shampoo::test
