// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

/// What is loaded must replace these.
const Rates other_rates{.learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.5, .weight_decay = 0.3};

std::string describe(const Arrangement& a) {
  return std::to_string(a.ranks) + " ranks, " + std::to_string(a.groups) + " groups" +
         (a.merges ? "" : ", not merged") + (a.reversed ? ", reversed" : "");
}

class Checkpoints : public testing::Test {
 protected:
  template <typename Scalar>
  void expect_to_go_on(const Trainee& trainee, const std::vector<Arrangement>& arrangements) {
    for (const Arrangement& before : arrangements) {
      Arrangement alone = before;
      alone.ranks = 1;
      const End<Scalar> undisturbed =
          train_first<Scalar>(trainee, alone, steps_before + steps_after);
      const auto root = folder_.path() / std::to_string(roots_++);
      save_first<Scalar>(root, trainee, before);
      for (Arrangement after : arrangements) {
        after.rates = other_rates;
        const End<Scalar> end = load_on<Scalar>(root, trainee, after);
        EXPECT_EQ(end.values, undisturbed.values) << describe(before) << " to " << describe(after);
        EXPECT_EQ(end.state, undisturbed.state) << describe(before) << " to " << describe(after);
      }
    }
  }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
  int roots_ = 0;
};

TEST_F(Checkpoints, LetTrainingGoOnWithTheSameBitsOnAnyNumberOfRanks) {
  std::vector<Arrangement> arrangements;
  for (const int ranks : {1, 2, 3, 4, 8}) arrangements.push_back({.ranks = ranks, .groups = 2});
  expect_to_go_on<float>(everything(), arrangements);
}

TEST_F(Checkpoints, LetTrainingGoOnWithTheSameBitsInFloat64) {
  Trainee trainee = everything();
  for (Recipe& recipe : trainee.recipes) recipe.arithmetic = Arithmetic::float64;
  expect_to_go_on<double>(trainee, {{.ranks = 1}, {.ranks = 3}});
}

TEST_F(Checkpoints, DoNotDependOnMergingOrTheOrderOfGroupsAndParameters) {
  Trainee trainee = everything();
  expect_to_go_on<float>(trainee, {{.ranks = 2, .groups = 3},
                                   {.ranks = 3, .groups = 2, .merges = false},
                                   {.ranks = 1, .groups = 1, .reversed = true}});
}

TEST_F(Checkpoints, LeaveParametersThatWereAddedLaterAsTheyWere) {
  const Trainee more{.shapes = {{9, 8}, {13}, {20, 3}, {6, 5}}};
  const auto folder = save_first<float>(root_, small, {.ranks = 3});
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, more, {.groups = 2, .reversed = true});
    const auto values = job.values();
    UserState user = user_state_of(job);
    EXPECT_THROW(load(*job.optimizer, root_, user), std::invalid_argument);
    EXPECT_EQ(job.values(), values);
    const LoadedCheckpoint loaded = load(*job.optimizer, root_, user, {.state = {.strict = false}});
    EXPECT_EQ(loaded.folder, folder);
    EXPECT_EQ(loaded.step, steps_before);
    EXPECT_EQ(loaded.state.missing, std::vector<std::string>{"tensor3"});
    EXPECT_EQ(loaded.missing_user_state, std::vector<std::string>{"tensor3"});
    EXPECT_EQ(job.values().first[3], values.first[3]);
    EXPECT_NE(job.values().first[0], values.first[0]);
    EXPECT_EQ(job.optimizer->steps("tensor3"), 0);
    EXPECT_EQ(job.optimizer->steps("tensor0"), steps_before);
    job.train(0, 1);
    EXPECT_EQ(job.optimizer->steps("tensor3"), 1);
  });
}

TEST_F(Checkpoints, AreCutAgainForOtherBlocks) {
  Trainee trainee{.shapes = awkward_shapes()};
  const End<float> first = train_first<float>(trainee, {.ranks = 2});
  save_first<float>(root_, trainee, {.ranks = 2});
  trainee.recipes.front().blocking.size = 5;
  const auto loaded = [&](OtherBlocks other) {
    return load_on<float>(root_, trainee, {.ranks = 3}, 0, {.state = {.other_blocks = other}});
  };
  const std::string message = error_of<std::invalid_argument>([&] { loaded(OtherBlocks::refuse); });
  expect_says(message, {"cut differently", "OtherBlocks::restart"});
  const End<float> end = loaded(OtherBlocks::restart);
  EXPECT_EQ(end.values, first.values);
  for (const StateTensor& tensor : first.state.tensors)
    if (tensor.layout == StateLayout::elements) {
      EXPECT_EQ(end.state.find(tensor.name())->bytes, tensor.bytes);
    }
}

TEST_F(Checkpoints, AreCutAgainToTheSameStateOnAnyNumberOfRanks) {
  Trainee trainee{.shapes = {{6, 2}}};  // cut at 4, then at 2 and 4
  trainee.recipes[0].preconditioner = EigenvalueCorrected{};
  trainee.recipes[0].blocking.size = 4;
  const End<float> first = train_first<float>(trainee, {});
  save_first<float>(root_, trainee, {});
  trainee.recipes[0].blocking.size = 2;
  const CheckpointOptions restart{.state = {.other_blocks = OtherBlocks::restart}};
  const End<float> alone = load_on<float>(root_, trainee, {}, 0, restart);
  EXPECT_EQ(load_on<float>(root_, trainee, {.ranks = 3}, 0, restart).state, alone.state);
  EXPECT_EQ(load_on<float>(root_, trainee, {.ranks = 3}, 4, restart),
            load_on<float>(root_, trainee, {}, 4, restart));

  // The last block is the one that there was: it goes on with its basis and what lies in it.
  for (const char* const name : {"tensor0/factor/0/4.0", "tensor0/basis/0/4.0"})
    EXPECT_EQ(*alone.state.find(name), *first.state.find(name));
  std::vector<std::byte> moment = first.state.find("tensor0/corrected_eigenvalues")->bytes;
  std::fill_n(moment.begin(), 4 * 2 * sizeof(float), std::byte{});
  EXPECT_EQ(alone.state.find("tensor0/corrected_eigenvalues")->bytes, moment);
}

TEST_F(Checkpoints, WithoutRootsSaySoAndRecomputeThem) {
  save_first<float>(root_, small, {}, {.derived = false});
  Alone alone;
  const LoadedCheckpoint loaded = load(*alone.job.optimizer, root_);
  EXPECT_FALSE(loaded.state.recomputed.empty());
}

TEST_F(Checkpoints, AreRefusedWhereTheStateHasOtherSlots) {
  save_first<float>(root_, small, {.ranks = 2});
  Trainee other = small;
  other.recipes.front().averaging = Momentum{};
  Alone alone(other);
  const CheckpointOptions keeps{.state = {.keep_recipes = true}};
  expect_says(error_of<std::invalid_argument>([&] { load(*alone.job.optimizer, root_, keeps); }),
              {"missing", "momentum"});
  // The other way round: a slot that nobody knows.
  const auto root = folder_.path() / "other";
  save_first<float>(root, other, {.ranks = 2});
  Alone less;
  expect_says(error_of<std::invalid_argument>([&] { load(*less.job.optimizer, root, keeps); }),
              {"unknown", "momentum"});
}

TEST_F(Checkpoints, AreFoundByTheirRootOrTheirFolderAndRetained) {
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    for (int step = 0; step < 5; ++step) {
      job.train(step, step + 1);
      EXPECT_EQ(save(*job.optimizer, root_, {}, {.keep_last = 2}),
                root_ / ("step-" + std::to_string(step + 1)));
    }
    EXPECT_EQ(load(*job.optimizer, root_).step, 5);
    const LoadedCheckpoint loaded = load(*job.optimizer, root_ / "step-4");
    EXPECT_EQ(loaded.step, 4);
    EXPECT_EQ(job.optimizer->steps("tensor0"), 4);
    EXPECT_NE(
        error_of<std::invalid_argument>([&] { save(*job.optimizer, root_); }).find("step-4 exists"),
        std::string::npos);
    EXPECT_EQ(save(*job.optimizer, root_, {}, {.step = 17}), root_ / "step-17");
  });
  const CheckpointListing listing = list_checkpoints(root_);
  ASSERT_EQ(listing.complete.size(), 3U);
  EXPECT_TRUE(listing.stale.empty());
  EXPECT_EQ(latest_checkpoint(root_), root_ / "step-17");
  EXPECT_EQ(prune_checkpoints(root_, 1).size(), 2U);
}

TEST_F(Checkpoints, ThatAreNotThereAreNamed) {
  Alone alone;
  const auto message = [&](const std::filesystem::path& path) {
    return error_of<CheckpointError>([&] { load(*alone.job.optimizer, path); });
  };
  expect_says(message(root_), {root_.string(), "there is no checkpoint", "resume()"});
  expect_says(message(root_ / "step-8"), {"step-8: there is no checkpoint", "list"});
  save_first<float>(root_, small, {});
  std::filesystem::remove(root_ / "step-7" / "manifest.json");
  expect_says(message(root_), {"step-7 is broken", "manifest.json"});
}

TEST_F(Checkpoints, OfARunThatFailedMakeItUsableAgain) {
  save_first<float>(root_, small, {.ranks = 2});
  const End<float> undisturbed = train_first<float>(small, {}, steps_before + steps_after);
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    job.optimizer->group(0).rates.learning_rate = communicator.rank() == 0 ? 0.1 : 0.2;
    EXPECT_THROW(job.optimizer->step(), CommunicationError);
    EXPECT_NE(job.optimizer->failure(), "");
    EXPECT_THROW(save(*job.optimizer, root_, {}, {.step = 99}), CommunicationError);
    UserState user = user_state_of(job);
    load(*job.optimizer, root_, user);
    EXPECT_EQ(job.optimizer->failure(), "");
    job.train(steps_before, steps_before + steps_after);
    EXPECT_EQ(end_of(job), undisturbed);
  });
}

}  // namespace
}  // namespace shampoo::test
