// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/distributor/transports/gloo_ranks.h"
#include "tests/distributor/transports/mismatch.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

TEST(GlooMismatch, IsAnErrorOnAllRanksLongBeforeTheDeadline) {
  const StoreProcess server;
  const auto endings = run_jobs(
      mismatches().size(),
      [&](std::size_t job, int rank) {
        const auto ranks = gloo_rank(rank, 3, server, 10min, job);
        return check_mismatch(*ranks, mismatches()[job], 30s);
      },
      50s);
  for (std::size_t job = 0; job < endings.size(); ++job)
    for (const Ending& ending : endings[job]) {
      EXPECT_EQ(ending.status, 0) << mismatches()[job].name;
      EXPECT_EQ(ending.said, "") << mismatches()[job].name;
    }
}

/// What the transport cannot know before the deadline: the counts of two ranks do not fit.
TEST(GlooAllToAll, OfCountsThatDoNotFitMissesTheDeadlineInsteadOfTerminating) {
  const StoreProcess server;
  const auto endings = run_processes(
      3,
      [&](int rank) -> std::string {
        const auto ranks = gloo_rank(rank, 3, server);
        ranks->set_deadline(1s);
        std::vector<char> send(300), receive(300);
        std::vector<std::int64_t> sends(3, 100), receives(3, 100);
        if (rank == 1) sends[0] = 90;
        try {
          ranks->all_to_all(send.data(), sends, receive.data(), receives).wait();
        } catch (const CommunicationError& error) {
          return error.what();
        }
        return "no error";
      },
      50s);
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(endings[rank].status, 0) << endings[rank].said;
    EXPECT_NE(endings[rank].said.find("all_to_all (collective 1): "), std::string::npos)
        << endings[rank].said;
  }
}

}  // namespace
}  // namespace shampoo::test
