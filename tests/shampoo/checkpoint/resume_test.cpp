// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

class Resuming : public testing::Test {
 protected:
  static constexpr int ranks = 3;

  static void run(const std::function<void(Job<float>&, Communicator&)>& body) {
    run_ranks(ranks, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      body(job, communicator);
    });
  }
  /// Saves after the steps.
  void save_after(const std::vector<int>& steps) {
    run([&](Job<float>& job, Communicator&) {
      int before = 0;
      for (const int step : steps) {
        job.train(before, step);
        save(*job.optimizer, root_, user_state_of(job));
        before = step;
      }
    });
  }
  /// Changes the last byte of a tensor, which no size shows.
  void flip_in(const std::filesystem::path& folder) {
    const auto path = folder / "shard-00000-of-00003.safetensors";
    const auto last = static_cast<std::streamoff>(std::filesystem::file_size(path)) - 1;
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(last);
    const int byte = file.get();
    file.seekp(last);
    file.put(static_cast<char>(byte ^ 1));
  }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
  const End<float> undisturbed_ = train_first<float>(small, {}, steps_before + steps_after);
};

TEST_F(Resuming, FindsNothingBeforeTheFirstSave) {
  run([&](Job<float>& job, Communicator&) {
    UserState user = user_state_of(job);
    EXPECT_FALSE(resume(*job.optimizer, root_, user));
    EXPECT_FALSE(resume(*job.optimizer, root_));
    EXPECT_THROW(load(*job.optimizer, root_), CheckpointError);
    job.train(0, steps_before + steps_after);
    EXPECT_EQ(end_of(job), undisturbed_);
  });
}

TEST_F(Resuming, SaysWhatIsWrongWithTheUserStateBeforeTheFirstSave) {
  run([&](Job<float>& job, Communicator& communicator) {
    UserState user = user_state_of(job);
    if (communicator.rank() == 1) user.tensors.push_back(user.tensors.front());
    expect_says(error_of<std::invalid_argument>([&] { resume(*job.optimizer, root_, user); }),
                {"user state", user.tensors.front().name, "must be unique", "rank 1"});
    EXPECT_EQ(error_of<std::invalid_argument>([&] { resume(*job.optimizer, ""); }),
              "checkpoint path: must not be empty");
    EXPECT_EQ(
        error_of<std::invalid_argument>([&] { save(*job.optimizer, "", user_state_of(job)); }),
        "checkpoint path: must not be empty");
    UserState good = user_state_of(job);
    EXPECT_FALSE(resume(*job.optimizer, root_, good));
  });
}

TEST_F(Resuming, GoesOnFromTheLatestAndRemovesWhatInterruptedSavesLeftWithTheNextSave) {
  save_after({3, steps_before});
  const auto temporary = [&](const std::filesystem::path& directory) {
    const auto path = directory / checkpoint::temporary_name(9, checkpoint::new_save_id());
    std::filesystem::create_directories(path);
    return path;
  };
  const auto stale = temporary(root_), elsewhere = temporary(folder_.path() / "other");
  std::filesystem::path later;
  run([&](Job<float>& job, Communicator& communicator) {
    UserState user = user_state_of(job);
    const auto resumed = resume(*job.optimizer, root_, user);
    ASSERT_TRUE(resumed);
    EXPECT_EQ(resumed->folder, root_ / "step-7");
    EXPECT_EQ(resumed->step, steps_before);
    EXPECT_TRUE(resumed->passed_over.empty());
    job.train(steps_before, steps_before + steps_after);
    EXPECT_EQ(end_of(job), undisturbed_);

    communicator.barrier().wait();
    EXPECT_TRUE(std::filesystem::exists(stale)) << "a job that only loads";
    communicator.barrier().wait();
    if (communicator.rank() == 0) later = temporary(root_);
    save(*job.optimizer, folder_.path() / "other");
    EXPECT_TRUE(std::filesystem::exists(stale));
    save(*job.optimizer, root_);
  });
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_TRUE(std::filesystem::exists(elsewhere));
  EXPECT_TRUE(std::filesystem::exists(later)) << "of a save that may be under way";
}

TEST_F(Resuming, FindsACheckpointWhileATrainerPrunes) {
  std::atomic<bool> saved = false, done = false;
  std::thread trainer([&] {
    run_ranks(1, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      job.train(0, 1);
      for (int step = 1; step <= 150; ++step) {
        save(*job.optimizer, root_, {}, {.step = step, .keep_last = 1});
        saved = true;
      }
      done = true;
    });
  });
  while (!saved) std::this_thread::yield();
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    for (bool more = true; more;) {
      const auto loaded = resume(*job.optimizer, root_);
      ASSERT_TRUE(loaded);
      EXPECT_TRUE(loaded->passed_over.empty()) << loaded->passed_over.front().fault;
      std::int32_t go_on = !done;
      communicator.broadcast(&go_on, sizeof go_on, 0).wait();
      more = go_on;
    }
  });
  trainer.join();
}

TEST_F(Resuming, LeavesItsOwnSavesAlone) {
  Alone alone;
  AsyncCheckpointer checkpointer(*alone.job.optimizer);
  checkpointer.start(root_, {}, {.step = 1});
  while (list_checkpoints(root_).stale.empty()) std::this_thread::yield();
  EXPECT_FALSE(resume(*alone.job.optimizer, root_));
  EXPECT_EQ(save(*alone.job.optimizer, root_, {}, {.step = 2}), root_ / "step-2");
  EXPECT_EQ(checkpointer.wait(), root_ / "step-1");
}

TEST_F(Resuming, KnowsADirectoryByAnotherSpelling) {
  save_after({3, steps_before});
  flip_in(root_ / "step-7");
  run([&](Job<float>& job, Communicator&) {
    EXPECT_EQ(resume(*job.optimizer, folder_.path() / "." / "root" / "")->step, 3);
    EXPECT_EQ(save(*job.optimizer, root_ / ".", {}, {.step = 7}), root_ / "step-7");
  });
}

TEST_F(Resuming, PassesOverBrokenOnesTellsSoAndReplacesThem) {
  save_after({3, steps_before, 9, 11, 12});
  std::filesystem::remove(root_ / "step-9" / "manifest.json");
  flip_in(root_ / "step-11");
  std::filesystem::resize_file(root_ / "step-12" / "shard-00001-of-00003.safetensors", 50);
  run([&](Job<float>& job, Communicator&) {
    UserState user = user_state_of(job);
    const auto resumed = resume(*job.optimizer, root_, user);
    ASSERT_TRUE(resumed);
    EXPECT_EQ(resumed->step, steps_before);
    ASSERT_EQ(resumed->passed_over.size(), 3U);
    EXPECT_EQ(resumed->passed_over[0].path, root_ / "step-9");
    expect_says(resumed->passed_over[0].fault, {"manifest.json", "No such file"});
    EXPECT_EQ(resumed->passed_over[1].path, root_ / "step-12");
    expect_says(resumed->passed_over[1].fault, {"50 bytes"});
    EXPECT_EQ(resumed->passed_over[2].path, root_ / "step-11");
    expect_says(resumed->passed_over[2].fault, {"shard-00000-of-00003", "checksum"});
    for (int step = steps_before; step < steps_before + steps_after; ++step) {
      job.train(step, step + 1);
      EXPECT_EQ(save(*job.optimizer, root_, user_state_of(job)).filename(),
                "step-" + std::to_string(step + 1))
          << "no step that is broken ends the run";
    }
    EXPECT_EQ(end_of(job), undisturbed_);
  });
  const CheckpointListing listing = list_checkpoints(root_);
  EXPECT_TRUE(listing.broken.empty());
  EXPECT_TRUE(listing.stale.empty());
  EXPECT_EQ(listing.complete.size(), 2U + steps_after);
}

TEST_F(Resuming, DoesNotBeginAnewWhereAllAreBroken) {
  save_after({3, steps_before});
  for (const char* name : {"step-3", "step-7"}) flip_in(root_ / name);
  run([&](Job<float>& job, Communicator&) {
    UserState user = user_state_of(job);
    for (const auto& path : {root_, root_ / "step-7"})
      expect_says(error_of<CheckpointError>([&] { resume(*job.optimizer, path, user); }),
                  {"step-7", "checksum"});
    expect_says(error_of<CheckpointError>([&] { load(*job.optimizer, root_, user); }),
                {"no good checkpoint", "step-3 is broken"});
    job.train(0, steps_before + steps_after);
    EXPECT_EQ(end_of(job), undisturbed_) << "nothing was changed";
  });
}

TEST_F(Resuming, DoesNotPassOverWhatDoesNotFit) {
  save_after({3});
  const Trainee other{.shapes = {{9, 8}, {13}}};
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, other, {});
    EXPECT_THROW(resume(*job.optimizer, root_), std::invalid_argument);
  });
}

}  // namespace
}  // namespace shampoo::test
