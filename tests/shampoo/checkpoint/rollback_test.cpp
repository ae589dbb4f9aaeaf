// SPDX-License-Identifier: Apache-2.0
// Runs that go back to an earlier checkpoint and train another branch.
#include <gtest/gtest.h>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using Steps = std::vector<std::int64_t>;

class Rollbacks : public testing::Test {
 protected:
  /// A run of its own on two ranks.
  static void run(const std::function<void(Job<float>&)>& body) {
    run_ranks(2, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      body(job);
    });
  }

  /// Steps of the complete checkpoints, in the order of writing.
  Steps steps() const {
    Steps steps;
    for (const auto& complete : list_checkpoints(root_).complete) steps.push_back(complete.step);
    return steps;
  }
  std::filesystem::path at(std::int64_t step) const {
    return root_ / ("step-" + std::to_string(step));
  }
  CompleteCheckpoint checkpoint(std::int64_t step) const {
    for (const auto& complete : list_checkpoints(root_).complete)
      if (complete.step == step) return complete;
    throw std::out_of_range(std::to_string(step));
  }
  void save_until(std::int64_t last, int keep_last) {
    run([&](Job<float>& job) {
      for (std::int64_t step = 1000; step <= last; step += 1000)
        save(*job.optimizer, root_, {}, {.step = step, .keep_last = keep_last});
    });
  }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
};

TEST_F(Rollbacks, KeepWhatIsWrittenLastAndWhatWasLoaded) {
  save_until(5000, 3);
  EXPECT_EQ(steps(), (Steps{3000, 4000, 5000}));
  const std::vector<Steps> kept{{3000, 4000, 5000, 3100},
                                {3000, 5000, 3100, 3200},
                                {3000, 3100, 3200, 3300},
                                {3000, 3200, 3300, 3400}};
  run([&](Job<float>& job) {
    load(*job.optimizer, at(3000));
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const std::int64_t step = kept[i].back();
      EXPECT_EQ(save(*job.optimizer, root_, {}, {.step = step, .keep_last = 3}), at(step));
      EXPECT_EQ(steps(), kept[i]) << step;
    }
  });
  EXPECT_EQ(latest_checkpoint(root_), at(3400));
  run([&](Job<float>& job) {
    EXPECT_EQ(resume(*job.optimizer, root_)->step, 3400);
    save(*job.optimizer, root_, {}, {.step = 3500, .keep_last = 1});
    EXPECT_EQ(steps(), (Steps{3400, 3500})) << "the next run does not know the base";
  });
}

TEST_F(Rollbacks, NeverRemoveWhatTheyJustWrote) {
  save_until(5000, 0);
  run([&](Job<float>& job) {
    load(*job.optimizer, at(1000));
    EXPECT_EQ(save(*job.optimizer, root_, {}, {.step = 1100, .keep_last = 2}), at(1100));
  });
  EXPECT_EQ(steps(), (Steps{1000, 5000, 1100}));
}

TEST_F(Rollbacks, AreRecordedInTheCheckpoints) {
  save_until(3000, 0);
  run([&](Job<float>& job) {
    EXPECT_EQ(load(*job.optimizer, at(1000)).step, 1000);
    save(*job.optimizer, root_, {}, {.step = 1500});
  });
  EXPECT_EQ(checkpoint(1000).parent, "");
  EXPECT_EQ(checkpoint(2000).parent, checkpoint(1000).save);
  EXPECT_EQ(checkpoint(3000).parent, checkpoint(2000).save);
  EXPECT_EQ(checkpoint(1500).parent, checkpoint(1000).save);
  EXPECT_GT(checkpoint(1500).sequence, checkpoint(3000).sequence);
  run([&](Job<float>& job) { EXPECT_EQ(load(*job.optimizer, root_).step, 1500); });
}

TEST_F(Rollbacks, LeaveSavesThatAreUnderWayOnTheOtherBranch) {
  save_until(2000, 0);
  run([&](Job<float>& job) {
    load(*job.optimizer, at(2000));
    AsyncCheckpointer queues(*job.optimizer, {.while_saving = WhileSaving::queue});
    queues.start(root_, {}, {.step = 3000});
    queues.start(root_, {}, {.step = 4000});
    load(*job.optimizer, at(1000));
    EXPECT_EQ(queues.wait(), at(4000));
    save(*job.optimizer, root_, {}, {.step = 1500});
  });
  EXPECT_EQ(checkpoint(3000).parent, checkpoint(2000).save);
  EXPECT_EQ(checkpoint(4000).parent, checkpoint(2000).save) << "not that of the new branch";
  EXPECT_EQ(checkpoint(1500).parent, checkpoint(1000).save);
}

TEST_F(Rollbacks, ReplaceTheStepsOfTheAbandonedBranchWhereTheyAreTold) {
  save_until(2000, 0);
  const std::string abandoned = checkpoint(2000).save;
  run([&](Job<float>& job) {
    load(*job.optimizer, at(1000));
    expect_says(
        error_of<std::invalid_argument>([&] { save(*job.optimizer, root_, {}, {.step = 2000}); }),
        {"rank 0", "step-2000 exists", "SaveOptions::replace"});
    EXPECT_EQ(checkpoint(2000).save, abandoned);
    EXPECT_EQ(save(*job.optimizer, root_, {}, {.step = 2000, .replace = true}), at(2000));
    AsyncCheckpointer checkpointer(*job.optimizer);
    checkpointer.start(root_, {}, {.step = 2000, .replace = true});
    EXPECT_EQ(checkpointer.wait(), at(2000));
  });
  EXPECT_EQ(steps(), (Steps{1000, 2000}));
  EXPECT_NE(checkpoint(2000).save, abandoned);
  EXPECT_TRUE(list_checkpoints(root_).stale.empty());
  run([&](Job<float>& job) { EXPECT_EQ(load(*job.optimizer, root_).step, 2000); });
}

}  // namespace
}  // namespace shampoo::test
