// SPDX-License-Identifier: Apache-2.0
// What save() and load() take of memory, by the peak of the pages that the process has.
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/support/allocations.h"

namespace shampoo::test {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

/// Beside the tensors, on each rank: a part of a file that is read (1 MiB), the array of a factor
/// and its root (512 x 513 numbers: 1 MiB), rows that are packed for writing (1 MiB); manifest and
/// headers of a few kilobytes.
constexpr std::int64_t constant = 4 * mebibyte;

/// Of /proc/self/status, in bytes.
std::int64_t memory_of_process(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) {
      std::istringstream numbers(line.substr(field.size() + 1));
      std::int64_t kibibytes = 0;
      numbers >> kibibytes;
      return kibibytes << 10;
    }
  throw std::runtime_error("/proc/self/status: no " + field);
}

/// The peak becomes what there is now.
bool forget_peak() {
  ::malloc_trim(0);
  std::ofstream clear("/proc/self/clear_refs");
  clear << 5 << std::flush;
  return clear.good();
}

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
