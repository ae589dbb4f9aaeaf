// SPDX-License-Identifier: Apache-2.0
// Disks that do not answer for a while.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using checkpoint::test::CallFault;
using checkpoint::test::CallWatch;
using namespace std::chrono_literals;

/// Holds calls that begin and end like this until it is opened.
class Gate {
 public:
  Gate(std::string operation, std::string end)
      : operation_(std::move(operation)),
        end_(std::move(end)),
        watch_([this](std::size_t, const std::string& call) {
          const bool held = call.starts_with(operation_ + " ") && call.ends_with(end_);
          return held ? CallFault{.wait = [this] { hold(); }} : CallFault{};
        }) {}

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void await_caller() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_ > 0; });
  }
  int held() const { return held_; }

 private:
  void hold() {
    std::unique_lock lock(mutex_);
    ++held_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }

  std::string operation_, end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::atomic<int> held_ = 0;
  CallWatch watch_;
};

/// All ranks leave it at once.
void poll_until_held(AsyncCheckpointer& checkpointer, const Gate& gate,
                     Communicator& communicator) {
  for (int held = 0; held == 0;) {
    EXPECT_EQ(checkpointer.poll(), std::nullopt);
    held = gate.held();
    communicator.broadcast(&held, sizeof held, 0).wait();
  }
}

class SlowDisks : public testing::Test {
 protected:
  static constexpr int ranks = 2;

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
  const std::string of_rank_1_ = "shard-00001-of-00002.safetensors";
};

TEST_F(SlowDisks, OfOneRankDoNotCountAgainstTheDeadlineOfTheCommunicator) {
  constexpr auto deadline = 300ms;
  Gate gate("fsync", of_rank_1_);
  std::jthread opener([&] {
    gate.await_caller();
    std::this_thread::sleep_for(4 * deadline);
    gate.open();
  });
  run_ranks(ranks, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    communicator.set_deadline(deadline);
    EXPECT_EQ(save(*job.optimizer, root_, {}, {.step = 1}), root_ / "step-1");
    AsyncCheckpointer checkpointer(*job.optimizer);
    checkpointer.start(root_, {}, {.step = 2});
    EXPECT_EQ(checkpointer.wait(), root_ / "step-2");
    job.train(0, 1);
  });
}

TEST_F(SlowDisks, LetNoMoreSavesQueueThanTold) {
  Gate gate("fsync", "shard-00000-of-00001.safetensors");
  std::atomic<bool> returned = false, early = false;
  std::jthread opener([&] {
    gate.await_caller();
    for (int wait = 0; wait < 30 && !returned; ++wait) std::this_thread::sleep_for(10ms);
    early = returned.load();
    gate.open();
  });
  Alone alone;
  AsyncCheckpointer checkpointer(*alone.job.optimizer,
                                 {.while_saving = WhileSaving::queue, .max_queued = 1});
  EXPECT_TRUE(checkpointer.start(root_, {}, {.step = 1}));
  EXPECT_TRUE(checkpointer.start(root_, {}, {.step = 2}));
  EXPECT_EQ(checkpointer.progress().unfinished, 2U);
  EXPECT_TRUE(checkpointer.start(root_, {}, {.step = 3}));
  returned = true;
  EXPECT_FALSE(early) << "the third one waits for room";
  EXPECT_TRUE(std::filesystem::exists(root_ / "step-1"));
  EXPECT_EQ(checkpointer.wait(), root_ / "step-3");
  EXPECT_EQ(list_checkpoints(root_).complete.size(), 3U);
  EXPECT_THROW(AsyncCheckpointer(*alone.job.optimizer, {.max_queued = -1}), std::invalid_argument);
}

TEST_F(SlowDisks, MakeSavesBeSkippedAndSayForHowLongTheyHaveStalled) {
  Gate gate("fsync", of_rank_1_);
  run_ranks(ranks, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    AsyncCheckpointer checkpointer(*job.optimizer, {.while_saving = WhileSaving::skip});
    EXPECT_TRUE(checkpointer.start(root_, {}, {.step = 1}));
    poll_until_held(checkpointer, gate, communicator);
    if (communicator.rank() == 1) {
      while (checkpointer.progress().stalled < 0.05) std::this_thread::sleep_for(5ms);
    }
    for (int step = 0; step < 3; ++step) {
      job.train(step, step + 1);
      EXPECT_FALSE(checkpointer.start(root_, {}, {.step = 2}));
      EXPECT_EQ(checkpointer.progress().unfinished, 1U);
    }
    if (communicator.rank() == 1) gate.open();
    EXPECT_EQ(checkpointer.wait(), root_ / "step-1");
    EXPECT_EQ(checkpointer.progress().stalled, 0);
    EXPECT_TRUE(checkpointer.start(root_, {}, {.step = 2}));
    EXPECT_EQ(checkpointer.wait(), root_ / "step-2");
  });
}

TEST_F(SlowDisks, AreLeftByCancelAndByTheDestructorAfterOneCall) {
  for (const bool cancels : {true, false}) {
    std::atomic<bool> ends = false;
    std::atomic<int> writes_after = 0;
    Gate gate("write", of_rank_1_);
    run_ranks(ranks, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      // One for each rank, of many writes.
      std::vector<float> first(std::size_t{8} << 20), second(first);
      const std::int64_t count = std::ssize(first);
      const UserState user{{{"first", {count}, first.data()}, {"second", {count}, second.data()}}};
      std::optional<AsyncCheckpointer> checkpointer;
      checkpointer.emplace(*job.optimizer,
                           AsyncCheckpointerOptions{.while_saving = WhileSaving::queue});
      checkpointer->start(root_, user, {.step = 1});
      checkpointer->start(root_, user, {.step = 2});
      poll_until_held(*checkpointer, gate, communicator);
      std::jthread opener;
      if (communicator.rank() == 1)
        opener = std::jthread([&] {
          std::this_thread::sleep_for(50ms);
          ends = true;
          gate.open();
        });
      if (cancels)
        checkpointer->cancel();
      else
        checkpointer.reset();
      if (communicator.rank() == 1) writes_after = gate.held();
      communicator.barrier().wait();
      if (!cancels && communicator.rank() == 0) remove_stale_directories(root_);
      communicator.barrier().wait();
      if (cancels) {
        EXPECT_EQ(checkpointer->progress().unfinished, 0U);
        EXPECT_EQ(checkpointer->wait(), std::nullopt);
      }
      job.train(0, 1);
    });
    EXPECT_TRUE(ends);
    EXPECT_LE(writes_after, 3) << "of more than 32";
    const CheckpointListing listing = list_checkpoints(root_);
    EXPECT_TRUE(listing.complete.empty());
    EXPECT_TRUE(listing.stale.empty());
  }
}

}  // namespace
}  // namespace shampoo::test
