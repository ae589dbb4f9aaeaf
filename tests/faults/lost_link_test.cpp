// SPDX-License-Identifier: Apache-2.0
// Two hosts whose link goes down while they train.
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "tests/faults/fault_job.h"
#include "tests/faults/two_hosts.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int deadline = 3;        ///< s, of a collective
constexpr int grace = 8;           ///< s; beyond the deadline, on a busy machine
const std::string port = "29500";  // nobody else is in these namespaces

class LostLink : public testing::Test {
 protected:
  void SetUp() override {
    try {
      hosts_ = std::make_unique<TwoHosts>();
    } catch (const std::exception& error) {
      GTEST_SKIP() << "no network namespaces here: " << error.what();
    }
  }

  std::vector<std::string> trainer(const std::vector<std::string>& more) const {
    std::vector<std::string> words{FAULT_TRAINER, "progress=" + folder_.path(), "connect=30"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// One rank on each host, without a launcher; rank 0 serves the store.
  void start_ranks(const std::vector<std::string>& orders) {
    for (const int rank : {0, 1})
      start(rank, trainer(orders),
            {{"RANK", std::to_string(rank)},
             {"WORLD_SIZE", "2"},
             {"LOCAL_RANK", "0"},
             {"MASTER_ADDR", TwoHosts::address(0)},
             {"MASTER_PORT", port}});
  }

  /// A launcher on each host, with two ranks each.
  void start_launchers(const std::vector<std::string>& orders) {
    for (const int host : {0, 1}) {
      std::vector<std::string> words{SHAMPOORUN,
                                     "--nnodes",
                                     "2",
                                     "--node-rank",
                                     std::to_string(host),
                                     "--master-addr",
                                     TwoHosts::address(0),
                                     "--master-port",
                                     port,
                                     "--nproc-per-node",
                                     "2",
                                     "--shutdown-timeout",
                                     "2"};
      const std::vector<std::string> program = trainer(orders);
      words.insert(words.end(), program.begin(), program.end());
      start(host, words, {});
    }
  }

  void start(int host, const std::vector<std::string>& words,
             const std::map<std::string, std::string>& variables) {
    processes_.push_back(std::make_unique<Process>(hosts_->on(host, words), variables));
  }

  bool trains(int ranks, int step) const {
    for (int rank = 0; rank < ranks; ++rank)
      if (!folder_.reaches(rank, step, Phase::gradients)) return false;
    return true;
  }

  /// Seconds until all have ended; a minute at most.
  double wait_for_all() {
    const Clock::time_point begin = Clock::now();
    for (const auto& process : processes_) process->wait(60s);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  JobFolder folder_;
  std::unique_ptr<TwoHosts> hosts_;
  std::vector<std::unique_ptr<Process>> processes_;
};

TEST_F(LostLink, IsAnErrorOnBothSidesInTime) {
  start_ranks({"steps=1000000", "deadline=" + std::to_string(deadline)});
  ASSERT_TRUE(trains(2, 5)) << processes_[0]->output() << processes_[1]->output();

  hosts_->cut_link();
  const double seconds = wait_for_all();

  EXPECT_LT(seconds, deadline + grace);
  for (const auto& process : processes_) {
    EXPECT_EQ(process->wait(0s), 3) << process->output();
    for (const std::string text : {"error: ", "again: step ", "can no longer be used"})
      EXPECT_NE(process->output().find(text), std::string::npos) << process->output();
  }
  EXPECT_NE(processes_[0]->output().find("rank 1 did not answer"), std::string::npos)
      << processes_[0]->output();
  std::printf("link down: both ranks failed within %.1f s\n", seconds);
}

TEST_F(LostLink, EndsTheLaunchersAndAllTheirRanks) {
  start_launchers({"steps=1000000", "deadline=" + std::to_string(deadline)});
  ASSERT_TRUE(trains(4, 5)) << processes_[0]->output() << processes_[1]->output();

  hosts_->cut_link();
  const double seconds = wait_for_all();

  for (const auto& process : processes_) EXPECT_EQ(process->wait(0s), 1) << process->output();
  EXPECT_TRUE(folder_.is_left_by_all());
  std::printf("link down: both launchers ended within %.1f s\n", seconds);
}

TEST_F(LostLink, ThatComesBackBeforeTheDeadlineChangesNoBit) {
  start_ranks({"steps=400", "pause=2", "deadline=40"});
  ASSERT_TRUE(trains(2, 5)) << processes_[0]->output() << processes_[1]->output();

  hosts_->cut_link();
  std::this_thread::sleep_for(500ms);
  const std::optional<Progress> while_cut = folder_.progress(0);
  hosts_->mend_link();
  wait_for_all();

  EXPECT_LT(while_cut.value().step, 400) << "the link was cut too late";
  for (const auto& process : processes_) EXPECT_EQ(process->wait(0s), 0) << process->output();
  EXPECT_EQ(folder_.progress(0).value().checksum, folder_.progress(1).value().checksum);
}

}  // namespace
}  // namespace shampoo::test
