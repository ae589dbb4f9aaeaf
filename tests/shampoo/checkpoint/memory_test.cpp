// SPDX-License-Identifier: Apache-2.0
// What save() and load() take of memory, by the peak of the pages that the process has.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <functional>

#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/support/allocations.h"
#include "tests/support/process_memory.h"

namespace shampoo::test {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

/// Beside the tensors, on each rank: a part of a file that is read (1 MiB), the array of a factor
/// and its root (512 x 513 numbers: 1 MiB), rows that are packed for writing (1 MiB); manifest and
/// headers of a few kilobytes.
constexpr std::int64_t constant = 4 * mebibyte;

class CheckpointMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer keeps what was freed";
    if (!forget_peak()) GTEST_SKIP() << "the system does not forget peaks of memory";
    // Tensors get pages of their own, which go back at once.
    ::mallopt(M_MMAP_THRESHOLD, 1 << 16);
  }

  /// Eight blocks: 512 x 512 numbers in two slots, two factors and two roots in half as many.
  static Trainee trainee() {
    Trainee trainee{.shapes = {{1024, 1024}, {1024, 512}, {512, 1024}}};
    trainee.recipes.front().blocking.size = 512;
    return trainee;
  }
  static constexpr std::int64_t state_bytes = 32 * mebibyte, second_bytes = 8 * mebibyte;

  void save_all() {
    Alone alone(trainee());
    save(*alone.job.optimizer, root_.path());
    std::int64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(root_.path() / "step-0"))
      bytes += static_cast<std::int64_t>(file.file_size());
    ASSERT_NEAR(static_cast<double>(bytes), static_cast<double>(state_bytes), mebibyte);
  }

  /// Bytes by which the peak exceeds what there was before, of all ranks together.
  std::int64_t growth(int ranks, const std::function<void(Optimizer&)>& action) {
    std::int64_t before = 0, peak = 0;
    run_ranks(ranks, [&](Communicator& communicator) {
      Job<float> job(communicator, trainee(), {});
      communicator.barrier().wait();
      if (communicator.rank() == 0) {
        forget_peak();
        before = memory_of_process("VmRSS");
      }
      communicator.barrier().wait();
      action(*job.optimizer);
      communicator.barrier().wait();
      if (communicator.rank() == 0) peak = memory_of_process("VmHWM");
    });
    std::printf("%.2f MiB on %d rank(s)\n", static_cast<double>(peak - before) / mebibyte, ranks);
    return peak - before;
  }

  TemporaryFolder root_;
};

TEST_F(CheckpointMemory, OfALoadIsThatOfTheFilesForAllRanksTogether) {
  save_all();
  for (const int ranks : {1, 2, 4}) {
    const std::int64_t most =
        growth(ranks, [&](Optimizer& optimizer) { load(optimizer, root_.path()); });
    EXPECT_LE(most, state_bytes + ranks * constant) << ranks;
    EXPECT_GE(most, state_bytes / 2) << ranks << ": the measure sees what is loaded";
  }
}

TEST_F(CheckpointMemory, OfALoadIsThatOfTheTensorsThatAreWanted) {
  save_all();
  const std::int64_t most = growth(1, [&](Optimizer& optimizer) {
    load(optimizer, root_.path(), {.state = {.prefix = "tensor1"}});
  });
  EXPECT_LE(most, second_bytes + constant);
  EXPECT_GE(most, second_bytes / 2) << "the measure sees what is loaded";
}

TEST_F(CheckpointMemory, OfALoadHasNoCopyOfLargeUserState) {
  // One tensor is larger than what a load keeps of the user state, 64 MiB.
  std::vector<float> large(96 << 18), other(1 << 18);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i % 1000);
  const std::vector<float> saved = large;
  UserState user{
      .tensors = {{"large", {96 << 18}, large.data()}, {"other", {1 << 18}, other.data()}}};
  {
    Alone alone(trainee());
    save(*alone.job.optimizer, root_.path(), user);
  }
  std::ranges::fill(large, 0.0F);
  const std::int64_t most =
      growth(1, [&](Optimizer& optimizer) { load(optimizer, root_.path(), user); });
  EXPECT_LE(most, state_bytes + mebibyte + constant);
  EXPECT_EQ(large, saved);
}

TEST_F(CheckpointMemory, OfALoadOfManyBlocksFollowsTheState) {
  Trainee many{.shapes = {{1600, 1600}}};
  many.recipes.front().blocking.size = 16;  // 10,000 blocks of 16 x 16
  {
    Alone alone(many);
    save(*alone.job.optimizer, root_.path());
  }
  Alone alone(many);
  forget_peak();
  const std::int64_t before = memory_of_process("VmRSS");
  load(*alone.job.optimizer, root_.path());
  const std::int64_t most = memory_of_process("VmHWM") - before;
  const std::int64_t tensors = 10'000 * 6;
  std::printf("%.1f MiB\n", static_cast<double>(most) / mebibyte);
  // Names, boxes and places of a tensor, in the header, the state dict and its index.
  constexpr std::int64_t bytes_per_tensor = 3000;
  EXPECT_LE(most, alone.job.optimizer->state_dict({.contents = true}).bytes() +
                      tensors * bytes_per_tensor + constant);
}

TEST_F(CheckpointMemory, OfASaveHasNoCopyOfTheState) {
  for (const int ranks : {1, 2}) {
    const auto root = root_.path() / std::to_string(ranks);
    const auto once = [&](Optimizer& optimizer) { save(optimizer, root); };
    EXPECT_LE(growth(ranks, once), ranks * constant) << ranks;
  }
  const std::int64_t copied = growth(1, [](Optimizer& optimizer) { snapshot(optimizer); });
  EXPECT_GE(copied, state_bytes / 2) << "the measure sees copies";
  EXPECT_LE(copied, state_bytes + constant);
}

}  // namespace
}  // namespace shampoo::test
