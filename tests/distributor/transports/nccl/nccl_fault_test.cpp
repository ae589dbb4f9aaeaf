// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/mismatch.h"
#include "tests/distributor/transports/nccl/nccl_ranks.h"
#include "tests/support/memory_store.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Counts = std::vector<std::int64_t>;

/// Until the communicator has failed; with a stream that waits meanwhile it is over by itself.
std::string failure_of(NcclRank& rank) {
  rank.nccl.stream().synchronize();
  const std::string failure = rank.ranks->failure();
  EXPECT_EQ(error_of<CommunicationError>([&] { rank.ranks->check(); }), failure);
  EXPECT_EQ(error_of<CommunicationError>([&] { (void)rank.ranks->barrier(); }), failure);
  return failure;
}

void gather(NcclRank& rank) {
  auto everyone = std::make_shared<std::vector<char>>(static_cast<std::size_t>(rank.ranks->size()));
  const Counts ones(everyone->size(), 1);
  rank.ranks->all_gather(everyone->data(), ones, {.keep_alive = everyone}).wait();
}

TEST(NcclFaults, ARankThatDoesNotComeIsAnErrorAndFreesTheStream) {
  run_nccl_ranks(2, 100ms, [](NcclRank& rank) {
    if (rank.ranks->rank() == 0) {
      gather(rank);
      const std::string failure = failure_of(rank);
      EXPECT_NE(failure.find("rank 0 of 2: all_gather (collective 1): not complete within 0.1 s"),
                std::string::npos)
          << failure;
      EXPECT_EQ(rank.nccl.counts.aborts, 1);
    }
    rank.host.barrier().wait();
  });
}

TEST(NcclFaults, TheDeadlineCountsFromWhenTheStreamIsThere) {
  run_nccl_ranks(2, 60ms, [](NcclRank& rank) {
    std::latch slow(1);
    rank.nccl.stream().push([&] { slow.wait(); });
    gather(rank);
    // Longer than the deadline, which this is about.
    for (const auto end = std::chrono::steady_clock::now() + 200ms;
         std::chrono::steady_clock::now() < end;)
      std::this_thread::yield();
    EXPECT_EQ(rank.ranks->failure(), "");
    rank.ranks->set_deadline(30s);
    slow.count_down();
    rank.nccl.stream().synchronize();
    rank.ranks->check();
    rank.host.barrier().wait();
  });
}

TEST(NcclFaults, AnErrorOfNcclIsTheReasonOfTheFailure) {
  run_nccl_ranks(2, 30s, [](NcclRank& rank) {
    if (rank.ranks->rank() == 0) {
      gather(rank);
      rank.nccl.break_next("remote process exited");
      const std::string failure = failure_of(rank);
      EXPECT_NE(failure.find("all_gather (collective 1): NCCL: remote process exited"),
                std::string::npos)
          << failure;
      EXPECT_EQ(rank.nccl.counts.aborts, 1);
    }
    rank.host.barrier().wait();
  });
}

TEST(NcclFaults, AnErrorWhileACollectiveStartsIsThrownThere) {
  run_nccl_ranks(1, 30s, [](NcclRank& rank) {
    rank.nccl.break_next("no memory");
    const std::string text = error_of<CommunicationError>([&] { gather(rank); });
    EXPECT_NE(text.find("all_gather (collective 1): NCCL: no memory"), std::string::npos) << text;
    EXPECT_EQ(failure_of(rank), text);
    EXPECT_EQ(rank.nccl.counts.aborts, 1);
  });
}

TEST(NcclFaults, AbortFromAnotherThreadFreesTheStream) {
  run_nccl_ranks(2, 30s, [](NcclRank& rank) {
    if (rank.ranks->rank() == 0) {
      gather(rank);
      std::thread([&] { rank.ranks->abort("enough of it"); }).join();
      EXPECT_EQ(failure_of(rank), "rank 0 of 2 aborted: enough of it");
      EXPECT_EQ(rank.nccl.counts.aborts, 1);
    }
    rank.host.barrier().wait();
  });
}

TEST(NcclFaults, TheDestructorWaitsForWhatIsPendingOrLosesIt) {
  run_nccl_ranks(2, 100ms, [](NcclRank& rank) {
    if (rank.ranks->rank() == 0) {
      gather(rank);
      rank.ranks.reset();
      EXPECT_EQ(rank.nccl.counts.aborts, 1);
    }
    rank.host.barrier().wait();
  });
}

TEST(NcclFaults, RanksHearOfAnAbortByTheStoreAndWhoIsMissing) {
  for (const bool aborts : {true, false}) {
    const auto store = std::make_shared<MemoryStore>();
    NcclJob job;
    run_ranks(3, [&](Communicator& host) {
      const auto nccl = std::make_shared<NcclDouble>(job, std::to_string(host.rank()));
      const auto ranks = connect_nccl_by_store(store,
                                               {.position = {host.rank(), 3},
                                                .make_api = [&] { return nccl; },
                                                .deadline = aborts ? 30s : 2s},
                                               "job", "rank 0");
      if (host.rank() == 1) {
        if (aborts) ranks->abort("enough of it");
      } else {
        std::vector<char> everyone(3);
        ranks->all_gather(everyone.data(), Counts{1, 1, 1}).wait();
        nccl->stream().synchronize();
        const std::string failure = ranks->failure();
        const char* const expected =
            aborts ? "rank 1 aborted: enough of it" : "rank 1 did not answer";
        EXPECT_NE(failure.find(expected), std::string::npos) << failure;
        if (!aborts) try {
            ranks->check();
          } catch (const CommunicationError& error) {
            EXPECT_EQ(error.missing_ranks(), std::vector<int>{1});
          }
      }
      host.barrier().wait();
    });
  }
}

/// Without those in which all ranks launch the same: nobody sees them over NCCL.
std::vector<Mismatch> visible_mismatches() {
  std::vector<Mismatch> visible;
  std::ranges::copy_if(mismatches(), std::back_inserter(visible), [](const Mismatch& mismatch) {
    return mismatch.name != "other_order_to_average" &&
           mismatch.name != "all_reduce_against_average";
  });
  return visible;
}

/// All at the same time, as they wait.
TEST(NcclMismatch, IsAnErrorOnAllRanksLongBeforeTheDeadline) {
  std::vector<std::jthread> jobs;
  for (const Mismatch& mismatch : visible_mismatches())
    jobs.emplace_back([mismatch] {
      const auto store = std::make_shared<MemoryStore>();
      NcclJob job;
      run_ranks(3, [&](Communicator& host) {
        const auto nccl = std::make_shared<NcclDouble>(job, std::to_string(host.rank()));
        {
          const auto ranks = connect_nccl_by_store(
              store,
              {.position = {host.rank(), 3}, .make_api = [&] { return nccl; }, .deadline = 10min},
              "job", "rank 0");
          const auto settle = [&] { nccl->stream().synchronize(); };
          EXPECT_EQ(check_mismatch(*ranks, mismatch, 30s, settle), "") << mismatch.name;
        }
        host.barrier().wait();
      });
    });
}

/// Error text of connecting on every rank.
std::vector<std::string> refusals(
    int n, const std::function<std::shared_ptr<NcclApi>(NcclJob&, int)>& make) {
  std::vector<std::string> texts(static_cast<std::size_t>(n));
  NcclJob job;
  run_ranks(n, [&](Communicator& host) {
    texts[host.rank()] = error_of<std::exception>([&] {
      connect_nccl(make_bootstrap(host), {.position = {host.rank(), host.size()},
                                          .make_api = [&] { return make(job, host.rank()); },
                                          .deadline = 10s});
    });
    host.barrier().wait();
  });
  return texts;
}

TEST(NcclFaults, TwoRanksOnOneDeviceAreRefusedOnAllRanks) {
  const auto texts = refusals(4, [](NcclJob& job, int rank) {
    return std::make_shared<NcclDouble>(job, "device " + std::to_string(rank == 3 ? 1 : rank));
  });
  for (const std::string& text : texts) {
    EXPECT_TRUE(text.starts_with("ranks 1 and 3 on ")) << text;
    EXPECT_NE(text.find("use the same CUDA device, device 1"), std::string::npos) << text;
  }
}

TEST(NcclFaults, ARankWithoutADeviceTellsTheOthers) {
  const auto texts = refusals(3, [](NcclJob& job, int rank) -> std::shared_ptr<NcclApi> {
    if (rank == 2) throw std::invalid_argument("device: there is none");
    return std::make_shared<NcclDouble>(job, std::to_string(rank));
  });
  EXPECT_EQ(texts[2], "device: there is none");
  for (const std::size_t rank : {0, 1}) {
    EXPECT_TRUE(texts[rank].starts_with("rank 2 on ")) << texts[rank];
    EXPECT_NE(texts[rank].find("cannot participate: device: there is none"), std::string::npos);
  }
}

TEST(NcclFaults, RankZeroWithoutAnIdTellsTheOthers) {
  const auto texts = refusals(2, [](NcclJob& job, int rank) {
    auto made = std::make_shared<NcclDouble>(job, std::to_string(rank));
    made->has_no_id = true;
    return made;
  });
  EXPECT_EQ(texts[0], "ncclGetUniqueId: no interface");
  EXPECT_TRUE(texts[1].starts_with("rank 0 on ")) << texts[1];
  EXPECT_TRUE(texts[1].ends_with("cannot participate: ncclGetUniqueId: no interface")) << texts[1];
}

TEST(NcclFaults, ConnectingEndsAtTheDeadline) {
  NcclJob job;
  const auto alone = single_rank_communicator();
  const auto nccl = std::make_shared<NcclDouble>(job, "device");
  EXPECT_EQ(error_of<CommunicationError>([&] {
              connect_nccl(
                  make_bootstrap(*alone),
                  {.position = {0, 2}, .make_api = [&] { return nccl; }, .deadline = 50ms});
            }),
            "NCCL did not finish connecting in time");
  EXPECT_EQ(nccl->counts.aborts, 1);
}

TEST(NcclFaults, ABorrowedCommunicatorIsLeftToItsOwner) {
  NcclJob job;
  run_ranks(2, [&](Communicator& host) {
    const auto nccl = std::make_shared<NcclDouble>(job, std::to_string(host.rank()));
    void* const comm = nccl->connect({host.rank(), 2}, "theirs");
    while (!nccl->is_ready(comm)) std::this_thread::yield();
    {
      const auto ranks = borrow_nccl(comm, nccl, {}, 30s);
      PlayedMemory memory(*nccl);
      EXPECT_EQ(conform(*ranks, memory), checksum_of_threads(host.rank(), 2));
    }
    host.barrier().wait();
    EXPECT_EQ(nccl->counts.aborts, 0);
    int calls = 0;
    {
      const auto ranks = borrow_nccl(
          comm, nccl,
          [&](std::string_view reason) {
            ++calls;
            EXPECT_EQ(reason, "not complete within 0.05 s");
            nccl->abort(comm);
          },
          50ms);
      if (host.rank() == 0) ranks->barrier().wait();
      nccl->stream().synchronize();
      EXPECT_EQ(ranks->failure().empty(), host.rank() == 1);
      host.barrier().wait();
    }
    EXPECT_EQ(calls, host.rank() == 0 ? 1 : 0);
    EXPECT_EQ(nccl->counts.aborts, calls);
    if (host.rank() == 1) nccl->abort(comm);
    host.barrier().wait();
  });
}

}  // namespace
}  // namespace shampoo::test
