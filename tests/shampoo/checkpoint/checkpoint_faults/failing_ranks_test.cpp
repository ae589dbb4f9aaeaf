// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads; the system calls of one of them fail, or all end at one of them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <system_error>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using checkpoint::test::CallFault;
using checkpoint::test::CallWatch;
using checkpoint::test::Fate;

constexpr int ranks = 3;

class FailingRanks : public testing::Test {
 protected:
  void SetUp() override { save_first<float>(root_, small, {.ranks = ranks}, {.step = 1}); }

  /// Saves in one way or the other.
  static void save_as(bool threaded, Job<float>& job, const std::filesystem::path& root,
                      std::int64_t step) {
    if (!threaded) {
      save(*job.optimizer, root, user_state_of(job), {.step = step});
      return;
    }
    AsyncCheckpointer checkpointer(*job.optimizer);
    checkpointer.start(root, user_state_of(job), {.step = step});
    checkpointer.wait();
  }

  /// What all ranks throw when calls that begin and end like this fail, if they throw the same.
  /// Training must go on to the same end.
  std::string message_of_all(bool threaded, const std::string& operation, const std::string& file,
                             int error) {
    std::array<std::string, ranks> messages;
    run_ranks(ranks, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      job.train(0, steps_before);
      std::optional<CallWatch> watch;
      communicator.barrier().wait();
      if (communicator.rank() == 0)
        watch.emplace([&](std::size_t, const std::string& call) {
          const bool this_one = call.starts_with(operation + " ") && call.ends_with(file);
          return this_one ? CallFault{Fate::fails, error} : CallFault{};
        });
      communicator.barrier().wait();
      try {
        save_as(threaded, job, root_, 2);
      } catch (const std::system_error& thrown) {
        EXPECT_EQ(thrown.code().value(), error) << thrown.what();
        messages[static_cast<std::size_t>(communicator.rank())] = thrown.what();
      }
      communicator.barrier().wait();
      watch.reset();
      communicator.barrier().wait();
      job.train(steps_before, steps_before + steps_after);
      EXPECT_EQ(end_of(job), undisturbed_) << operation << " " << file;
    });
    const CheckpointListing listing = list_checkpoints(root_);
    EXPECT_TRUE(listing.broken.empty());
    EXPECT_TRUE(listing.stale.empty());
    EXPECT_EQ(listing.complete.size(), 1U);
    EXPECT_EQ(load_on<float>(root_, small, {.ranks = 2}), undisturbed_);
    for (const std::string& message : messages) EXPECT_EQ(message, messages.front());
    return messages.front();
  }

  const End<float> undisturbed_ = train_first<float>(small, {}, steps_before + steps_after);
  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
};

TEST_F(FailingRanks, MakeASaveFailOnAllWithTheirErrorAndTrainingGoesOn) {
  const std::string mine = "shard-00001-of-00003.safetensors";
  for (const bool threaded : {false, true}) {
    for (const int error : {ENOSPC, EIO})
      for (const char* operation : {"open", "write", "fsync", "close"}) {
        const std::string said = operation == std::string("open") ? "create" : operation;
        const std::string message = message_of_all(threaded, operation, mine, error);
        EXPECT_TRUE(message.starts_with("rank 1: ")) << message;
        EXPECT_TRUE(
            message.ends_with(mine + ": " + said + ": " + std::generic_category().message(error)))
            << message;
      }
    expect_says(message_of_all(threaded, "rename_to_new", "/step-2", EIO), {"rank 0: ", "/step-2"});
    expect_says(message_of_all(threaded, "write", "manifest.json", ENOSPC),
                {"rank 0: ", "manifest.json: write: No space left"});
  }
}

TEST_F(FailingRanks, SayAllWhatTheyMet) {
  const std::string message = message_of_all(false, "write", ".safetensors", ENOSPC);
  expect_says(message, {"rank 0: ", "; rank 1: ", "; rank 2: ", "00002-of-00003"});
}

TEST_F(FailingRanks, DoNotMindShortAndInterruptedWrites) {
  std::atomic<int> interrupted = 0;
  const CallWatch watch([&](std::size_t place, const std::string& call) {
    if (!call.starts_with("write ") && !call.starts_with("fsync ")) return CallFault{};
    if (place % 3 != 0) return CallFault{Fate::shortened};
    ++interrupted;
    return CallFault{Fate::fails, EINTR};
  });
  run_ranks(ranks, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    job.train(0, steps_before);
    save_as(communicator.size() > 1, job, root_, 2);
  });
  EXPECT_GT(interrupted, 100);
  EXPECT_EQ(load_on<float>(root_ / "step-2", small, {}), undisturbed_);
}

TEST_F(FailingRanks, ThatCannotRemoveAnOldCheckpointSayThatTheNewOneIsComplete) {
  run_ranks(ranks, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    job.train(0, steps_before);
    std::optional<CallWatch> watch;
    if (communicator.rank() == 0)
      watch.emplace([&](std::size_t, const std::string& call) {
        const bool aside = call.starts_with("rename ") && call.find("step-1 ") != call.npos;
        return aside ? CallFault{Fate::fails, EACCES} : CallFault{};
      });
    const std::string message = error_of<std::system_error>(
        [&] { save(*job.optimizer, root_, user_state_of(job), {.step = 2, .keep_last = 1}); });
    expect_says(message, {"rank 0: ", "step-2 is complete", "Permission denied"});
    communicator.barrier().wait();
    watch.reset();
  });
  EXPECT_EQ(list_checkpoints(root_).complete.size(), 2U);
}

TEST_F(FailingRanks, LetTheNextSaveOfAQueueGoOn) {
  const CallWatch watch([](std::size_t, const std::string& call) {
    const bool of_first = call.starts_with("fsync ") && call.find("/step-2.tmp-") != call.npos &&
                          call.ends_with("00001-of-00003.safetensors");
    return of_first ? CallFault{Fate::fails, ENOSPC} : CallFault{};
  });
  run_ranks(ranks, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    AsyncCheckpointer queues(*job.optimizer, {.while_saving = WhileSaving::queue});
    queues.start(root_, {}, {.step = 2});
    queues.start(root_, {}, {.step = 3});
    EXPECT_THROW(queues.wait(), std::system_error);
    EXPECT_EQ(queues.wait(), root_ / "step-3");
  });
  EXPECT_EQ(list_checkpoints(root_).complete.size(), 2U);
  EXPECT_TRUE(list_checkpoints(root_).stale.empty());
}

TEST_F(FailingRanks, ThatAreStillSavingRefuseASecondSave) {
  std::mutex mutex;
  std::condition_variable changed;
  bool held = true;
  const CallWatch watch([&](std::size_t, const std::string& call) {
    if (call.starts_with("fsync ") && call.ends_with("00001-of-00003.safetensors")) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !held; });
    }
    return CallFault{};
  });
  run_ranks(ranks, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    AsyncCheckpointer checkpointer(*job.optimizer);
    checkpointer.start(root_, {}, {.step = 2});
    for (int step = 0; step < steps_before; ++step) {
      job.train(step, step + 1);
      EXPECT_EQ(checkpointer.poll(), std::nullopt);
      EXPECT_THROW(checkpointer.start(root_, {}, {.step = 3}), std::logic_error);
      EXPECT_EQ(checkpointer.progress().unfinished, 1U);
    }
    if (communicator.rank() == 0) {
      const std::lock_guard lock(mutex);
      held = false;
      changed.notify_all();
    }
    EXPECT_EQ(checkpointer.wait(), root_ / "step-2");
    EXPECT_EQ(save(*job.optimizer, root_, {}, {.step = 3}), root_ / "step-3");
  });
}

TEST_F(FailingRanks, ThatDieAtAnyCallLeaveThePreviousCheckpoint) {
  constexpr int crashed = 99;
  bool ended = false;
  int complete = 0, crashes = -1;  // the last attempt ends well
  for (std::size_t place = 0; place < 1000 && !ended; ++place, ++crashes) {
    const pid_t child = ::fork();
    if (child == 0) {
      const CallWatch watch([&](std::size_t call, const std::string&) {
        if (call == place) ::_exit(crashed);
        return CallFault{};
      });
      run_ranks(2, [&](Communicator& communicator) {
        Job<float> job(communicator, small, {});
        save_as(place % 2 == 0, job, root_, 2);
      });
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << place;
    ended = WEXITSTATUS(status) == 0;
    const CheckpointListing listing = list_checkpoints(root_);
    ASSERT_TRUE(listing.broken.empty()) << place << listing.broken.front().fault;
    ASSERT_FALSE(listing.complete.empty()) << place;
    if (listing.complete.size() == 2) ++complete;
    std::filesystem::remove_all(root_ / "step-2");
    remove_stale_directories(root_);
    ASSERT_TRUE(list_checkpoints(root_).stale.empty()) << place;
  }
  EXPECT_TRUE(ended);
  std::printf("row 7: %d crash points of a save of two ranks\n", crashes);
  EXPECT_GE(complete, 2) << "after the rename";
  EXPECT_EQ(load_on<float>(root_, small, {}), undisturbed_);
}

}  // namespace
}  // namespace shampoo::test
