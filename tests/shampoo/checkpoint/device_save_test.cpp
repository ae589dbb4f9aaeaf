// SPDX-License-Identifier: Apache-2.0
// Saves from ranks whose work is queued on a device.
#include <gtest/gtest.h>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/protocol/device_job.h"
#include "tests/support/device/stream_communicator.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

struct RankJob {
  explicit RankJob(Communicator& threads)
      : job(awkward_shapes()), communicator(threads, job.device) {
    job.begin(communicator, quick_recipe(), {}, {}, 3);
  }
  void step() {
    job.model.new_gradients();
    job.optimizer->step();
  }

  DeviceJob job;
  StreamCommunicator communicator;
};

TEST(ADeviceSave, IsFollowedWithoutWaitingForTheStep) {
  const TemporaryFolder root;
  run_ranks(2, [&](Communicator& threads) {
    RankJob rank(threads);
    rank.step();
    const auto state = rank.job.state();
    AsyncCheckpointer checkpointer(*rank.job.optimizer);
    checkpointer.start(root.path());
    int polls = 0, drained = 0;
    const std::int64_t before = rank.communicator.collectives();
    std::optional<std::filesystem::path> folder;
    for (; !folder; ++polls) {
      rank.step();
      ASSERT_GT(rank.job.device.pending(), 0U);
      folder = checkpointer.poll();
      drained += rank.job.device.pending() == 0 ? 1 : 0;
    }
    EXPECT_EQ(folder, root.path() / "step-1");
    EXPECT_GT(polls, 3);
    EXPECT_LE(drained, 1) << "when rank 0 gets the reports";
    // Each step has one, each poll but the last one, and the reports fit into one.
    EXPECT_EQ(rank.communicator.collectives() - before, 2 * polls);

    RankJob other(threads);
    EXPECT_EQ(load(*other.job.optimizer, root.path()).step, 1);
    EXPECT_EQ(other.job.state(), state) << "that of the moment of start()";
  });
}

TEST(ADeviceSave, CopiesIntoPinnedMemoryThatIsKept) {
  const TemporaryFolder root;
  DeviceJob job(quick_recipe());
  job.model.new_gradients();
  job.optimizer->step();
  AsyncCheckpointer checkpointer(*job.optimizer);
  const auto save = [&](std::int64_t step) {
    const std::int64_t before = job.device.allocations();
    checkpointer.start(root.path(), {}, {.step = step});
    const std::int64_t made = job.device.allocations() - before;
    checkpointer.wait();
    return made;
  };
  const std::int64_t pinned = job.backend.memory_use().host;
  const std::int64_t first = save(1), second = save(2), third = save(3);
  EXPECT_GE(job.backend.memory_use().host - pinned, job.optimizer->state_bytes());
  EXPECT_EQ(second, first - 1);
  EXPECT_EQ(third, second);

  const std::int64_t kept = job.backend.memory_use().host;
  for (const std::int64_t step : {4, 5}) {
    checkpointer.start(snapshot(*job.optimizer), root.path(), {.step = step});
    checkpointer.wait();
    EXPECT_EQ(job.backend.memory_use().host, kept) << "memory of a snapshot goes with it";
  }
}

}  // namespace
}  // namespace shampoo::test
