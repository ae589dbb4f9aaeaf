// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

class AnAsyncCheckpointer : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
};

TEST_F(AnAsyncCheckpointer, SavesTheStateOfTheMomentWhileTrainingGoesOn) {
  const Trainee trainee = everything();
  const End<float> undisturbed = train_first<float>(trainee, {}, steps_before + steps_after);
  for (const int ranks : {1, 2, 3}) {
    const auto root = root_ / std::to_string(ranks);
    run_ranks(ranks, [&](Communicator& communicator) {
      Job<float> job(communicator, trainee, {});
      AsyncCheckpointer checkpointer(*job.optimizer);
      job.train(0, steps_before);
      checkpointer.start(root, user_state_of(job));
      EXPECT_EQ(checkpointer.progress().unfinished, 1U);
      EXPECT_GT(checkpointer.progress().bytes, 0);
      std::optional<std::filesystem::path> folder;
      for (int step = steps_before; step < steps_before + steps_after; ++step) {
        job.train(step, step + 1);
        if (const auto done = checkpointer.poll()) folder = done;
      }
      if (!folder) folder = checkpointer.wait();
      EXPECT_EQ(folder, root / "step-7");
      EXPECT_EQ(checkpointer.progress().unfinished, 0U);
      EXPECT_EQ(checkpointer.poll(), std::nullopt);
      EXPECT_EQ(checkpointer.wait(), std::nullopt);
      EXPECT_EQ(job.values(), undisturbed.values);
    });
    EXPECT_EQ(load_on<float>(root, trainee, {.ranks = 2}), undisturbed) << ranks << " ranks";
  }
}

TEST_F(AnAsyncCheckpointer, PersistsASnapshotThatWasMadeBefore) {
  const End<float> undisturbed = train_first<float>(small, {}, steps_before + steps_after);
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    job.train(0, steps_before);
    Snapshot copy = snapshot(*job.optimizer, user_state_of(job));
    EXPECT_EQ(copy.step(), steps_before);
    EXPECT_GT(copy.bytes(), job.optimizer->state_bytes());
    job.train(steps_before, steps_before + 3);
    for (auto& tensor : job.model.tensors) std::ranges::fill(tensor.value, 7.0f);
    AsyncCheckpointer checkpointer(*job.optimizer);
    checkpointer.start(std::move(copy), root_);
    EXPECT_EQ(checkpointer.wait(), root_ / "step-7");
  });
  EXPECT_EQ(load_on<float>(root_, small, {}), undisturbed);
}

TEST_F(AnAsyncCheckpointer, RefusesSnapshotsOfDifferentPlans) {
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    std::optional<Snapshot> copy;
    if (communicator.rank() == 0) copy = snapshot(*job.optimizer);
    std::vector<float> value(6), gradient(6);
    job.optimizer->add_group({.parameters = {{.name = "added",
                                              .shape = {2, 3},
                                              .value = value.data(),
                                              .gradient = gradient.data()}}});
    if (communicator.rank() == 1) copy = snapshot(*job.optimizer);
    AsyncCheckpointer checkpointer(*job.optimizer);
    expect_says(
        error_of<CommunicationError>([&] { checkpointer.start(std::move(*copy), root_); }),
        {"the ranks do not have the same request", "rank 0 has 'plan: ", "rank 1 has 'plan: "});
  });
  EXPECT_TRUE(list_checkpoints(root_).complete.empty());
}

TEST_F(AnAsyncCheckpointer, LetsSavesQueue) {
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    AsyncCheckpointer queues(*job.optimizer, {.while_saving = WhileSaving::queue});
    for (int step = 2; step <= 5; ++step) {
      job.train(step, step + 1);
      queues.start(root_, {}, {.step = step, .keep_last = 3});
    }
    EXPECT_EQ(queues.wait(), root_ / "step-5");
  });
  const CheckpointListing listing = list_checkpoints(root_);
  ASSERT_EQ(listing.complete.size(), 3U);
  EXPECT_EQ(listing.complete.front().step, 3);
  EXPECT_TRUE(listing.stale.empty());
}

TEST_F(AnAsyncCheckpointer, WritesFromItsCopyWhatASaveWritesFromTheStateItself) {
  Trainee trainee = everything();
  trainee.shapes.push_back({600, 2});  // triangles of more than is packed at once
  for (Recipe& recipe : trainee.recipes) recipe.blocking.size = 1024;
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, trainee, {});
    job.train(0, 3);
    save(*job.optimizer, root_, user_state_of(job), {.step = 1});
    AsyncCheckpointer checkpointer(*job.optimizer);
    checkpointer.start(root_, user_state_of(job), {.step = 2});
    checkpointer.wait();
  });
  const auto manifest = [&](const char* folder) {
    return checkpoint::read_manifest(root_ / folder / checkpoint::manifest_name);
  };
  EXPECT_EQ(manifest("step-1").parameters, manifest("step-2").parameters);
  for (std::size_t f = 0; f < manifest("step-1").files.size(); ++f)
    EXPECT_EQ(manifest("step-1").files[f].checksums_checksum,
              manifest("step-2").files[f].checksums_checksum)
        << "of every tensor";
  EXPECT_EQ(manifest("step-1").user_tensors, manifest("step-2").user_tensors);
}

TEST_F(AnAsyncCheckpointer, DeliversAnErrorToAllRanksOnce) {
  std::array<std::string, 3> messages;
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    save(*job.optimizer, root_, {}, {.step = 1});
    AsyncCheckpointer checkpointer(*job.optimizer);
    messages[static_cast<std::size_t>(communicator.rank())] =
        error_of<std::invalid_argument>([&] { checkpointer.start(root_, {}, {.step = 1}); });
    EXPECT_EQ(checkpointer.wait(), std::nullopt);
    job.train(0, 1);

    AsyncCheckpointer queues(*job.optimizer, {.while_saving = WhileSaving::queue});
    queues.start(root_, {}, {.step = 2});
    EXPECT_THROW(queues.start(root_, {}, {.step = 2}), std::invalid_argument)
        << "found at once, while the other is not yet there";
    EXPECT_EQ(queues.wait(), root_ / "step-2");
    EXPECT_THROW(queues.start(root_, {}, {.step = -1}), std::invalid_argument);
  });
  expect_says(messages[0], {"rank 0", "step-1 exists"});
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_EQ(messages[0], messages[2]);
}

TEST_F(AnAsyncCheckpointer, ThatGoesAwayLeavesNothingHalf) {
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    save(*job.optimizer, root_, {}, {.step = 1});
    {
      AsyncCheckpointer checkpointer(*job.optimizer, {.while_saving = WhileSaving::queue});
      checkpointer.start(root_, {}, {.step = 2});
      checkpointer.start(root_, {}, {.step = 3});
    }
    job.train(0, 1);
    communicator.barrier().wait();
    if (communicator.rank() == 0) remove_stale_directories(root_);
    communicator.barrier().wait();
    EXPECT_EQ(save(*job.optimizer, root_, {}, {.step = 2}), root_ / "step-2");
  });
  const CheckpointListing listing = list_checkpoints(root_);
  EXPECT_EQ(listing.complete.size(), 2U);
  EXPECT_TRUE(listing.broken.empty());
  EXPECT_TRUE(listing.stale.empty());
}

TEST_F(AnAsyncCheckpointer, OutlivesARankThatIsAtAnotherCall) {
  std::array<std::string, 2> messages;
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    AsyncCheckpointer checkpointer(*job.optimizer);
    checkpointer.start(root_);
    messages[static_cast<std::size_t>(communicator.rank())] = error_of<CommunicationError>([&] {
      if (communicator.rank() == 0)
        checkpointer.wait();
      else
        job.optimizer->full_state_dict();
    });
  });
  for (const std::string& message : messages)
    expect_says(message, {"following a save on rank 0", "collecting the state on rank 1"});
}

}  // namespace
}  // namespace shampoo::test
