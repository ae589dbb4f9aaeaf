// SPDX-License-Identifier: Apache-2.0
// Disks that fail while they are read, and hosts that remove what is being read.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using checkpoint::test::CallFault;
using checkpoint::test::Calls;
using checkpoint::test::CallWatch;
using checkpoint::test::Fate;

class FailingReads : public testing::Test {
 protected:
  void save_alone(const std::filesystem::path& directory, std::int64_t step) {
    Alone alone;
    save(*alone.job.optimizer, directory, {}, {.step = step});
  }

  /// The first `passed` calls with this text happen; at the next one, step-2 takes the place of
  /// step-1.
  CallWatch::Decide pruned_at(const std::string& text, int passed, CallFault fault) {
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    save_alone(root_, 1);
    save_alone(hidden_, 2);
    const auto left = std::make_shared<std::atomic<int>>(passed);
    return [=, this](std::size_t, const std::string& call) {
      if (call != text || (*left)-- != 0) return CallFault{};
      std::filesystem::rename(hidden_ / "step-2", root_ / "step-2");
      std::filesystem::remove_all(root_ / "step-1");
      return fault;
    };
  }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root", hidden_ = folder_.path() / "hidden";
};

TEST_F(FailingReads, OfWhatAnotherProcessHasPrunedLookAgain) {
  const std::string folder = (root_ / "step-1").string(), manifest = folder + "/manifest.json";
  for (const int error : {0, ESTALE})
    for (const std::string& call : {"status " + folder, "open " + manifest, "read " + manifest}) {
      const CallFault fault{error == 0 ? Fate::happens : Fate::fails, error};
      if (error == 0 && call.starts_with("read ")) continue;  // of a file that is open
      {
        const CallWatch watch(pruned_at(call, 0, fault), Calls::all);
        EXPECT_EQ(latest_checkpoint(root_), root_ / "step-2") << call << ", error " << error;
      }
      const CallWatch watch(pruned_at(call, 0, fault), Calls::all);
      const CheckpointListing listing = list_checkpoints(root_);
      EXPECT_EQ(listing.complete.size(), 1U) << call << ", error " << error;
      EXPECT_TRUE(listing.broken.empty()) << call << ", error " << error;
    }
}

TEST_F(FailingReads, OfWhatAnotherHostHasPrunedResumeFromItsNextCheckpoint) {
  const std::string manifest = (root_ / "step-1" / "manifest.json").string();
  for (const int passed : {0, 1, 2}) {  // its first line, the whole of it, and that for all ranks
    const CallWatch watch(pruned_at("open " + manifest, passed, {Fate::fails, ESTALE}), Calls::all);
    run_ranks(2, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      const auto loaded = resume(*job.optimizer, root_);
      ASSERT_TRUE(loaded) << passed;
      EXPECT_EQ(loaded->step, 2) << passed;
      EXPECT_TRUE(loaded->passed_over.empty()) << passed;
    });
  }
}

TEST_F(FailingReads, OfAnOldManifestFailASaveBeforeItWritesAnything) {
  save_alone(root_, 1);
  Alone alone;
  {
    const CallWatch watch(
        [](std::size_t, const std::string& call) {
          EXPECT_EQ(call.find("step-2"), call.npos) << call;
          return call.ends_with("step-1/manifest.json") ? CallFault{Fate::fails, EIO} : CallFault{};
        },
        Calls::all);
    expect_says(
        error_of<std::system_error>([&] { save(*alone.job.optimizer, root_, {}, {.step = 2}); }),
        {"needs the first line of every manifest", "step-1/manifest.json: ", "Input/output error"});
  }
  save(*alone.job.optimizer, root_, {}, {.step = 2});
  EXPECT_EQ(list_checkpoints(root_).complete.size(), 2U);
}

/// More than a load keeps of the user state, so that it reads its file again once all have agreed.
class LargeUserState : public testing::TestWithParam<int> {
 protected:
  struct OfARank {
    explicit OfARank(std::uint8_t content)
        : bytes((std::size_t{64} << 20) + 1, content),
          user{.tensors = {{"large",
                            {static_cast<std::int64_t>(bytes.size())},
                            {bytes.data(), checkpoint::Dtype::u8},
                            Sharding::per_rank}},
               .values = {{"epoch", std::int64_t{content}}}} {}
    std::vector<std::uint8_t> bytes;
    UserState user;
  };

  /// From now on the read of that number of a file fails, on any rank. Collective.
  void watch_reads(Communicator& communicator, const std::string& file, int failing, int error) {
    communicator.barrier().wait();
    if (communicator.rank() == 0) {
      reads_ = 0;
      watch_.emplace(
          [=, this](std::size_t, const std::string& call) {
            const bool is_read = call.starts_with("read ") && call.ends_with(file);
            return is_read && ++reads_ == failing ? CallFault{Fate::fails, error} : CallFault{};
          },
          Calls::all);
    }
    communicator.barrier().wait();
  }
  /// Of the last rank.
  std::string file() const {
    const int count = GetParam();
    return "shard-0000" + std::to_string(count - 1) + "-of-0000" + std::to_string(count) +
           ".safetensors";
  }

  TemporaryFolder root_;
  std::atomic<int> reads_ = 0;
  std::optional<CallWatch> watch_;
};

TEST_P(LargeUserState, ThatCannotBeReadAgainIsRefusedByAllRanksUntilALoadSucceeds) {
  const int count = GetParam();
  std::vector<std::string> messages(static_cast<std::size_t>(count));
  run_ranks(count, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    OfARank own(1);
    save(*job.optimizer, root_.path(), own.user);
    const std::vector<char> saved = state_of(*job.optimizer, job.model);
    watch_reads(communicator, file(), 0, EIO);
    load(*job.optimizer, root_.path(), own.user);
    communicator.barrier().wait();
    const int all = reads_;
    watch_reads(communicator, file(), all, EIO);  // the last one of the second time
    job.train(0, 1);
    const std::vector<char> before = state_of(*job.optimizer, job.model);
    OfARank other(2);
    messages[static_cast<std::size_t>(communicator.rank())] =
        error_of<std::system_error>([&] { load(*job.optimizer, root_.path(), other.user); });

    EXPECT_TRUE(state_of(*job.optimizer, job.model) == before);
    EXPECT_EQ(other.user.values.at("epoch"), UserValue(std::int64_t{2}));
    expect_says(error_of<CommunicationError>([&] { job.train(1, 2); }),
                {"could not replace the user state", file(), "once a load has succeeded"});
    EXPECT_EQ(communicator.failure(), "");
    load(*job.optimizer, root_.path(), other.user);
    EXPECT_EQ(other.bytes, own.bytes);
    EXPECT_EQ(other.user.values, own.user.values);
    EXPECT_TRUE(state_of(*job.optimizer, job.model) == saved);
    job.train(1, 2);
    communicator.barrier().wait();
  });
  expect_says(messages.front(), {file() + ": read at byte", "Input/output error"});
  EXPECT_EQ(messages.front().starts_with("rank 1: "), count > 1) << messages.front();
  EXPECT_EQ(messages.front(), messages.back());
}

/// Its tensors would be of both where the older one lacks some.
TEST_P(LargeUserState, ThatIsGoneWhenItIsReadAgainIsNotTakenFromAnOlderCheckpoint) {
  run_ranks(GetParam(), [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    OfARank own(1), other(2);
    save(*job.optimizer, root_.path(), own.user);
    job.train(0, 1);
    save(*job.optimizer, root_.path(), own.user);
    watch_reads(communicator, "step-1/" + file(), 0, ENOENT);
    resume(*job.optimizer, root_.path(), other.user);
    communicator.barrier().wait();
    const int all = reads_;
    watch_reads(communicator, "step-1/" + file(), all, ENOENT);
    expect_says(
        error_of<CheckpointError>([&] { resume(*job.optimizer, root_.path(), other.user); }),
        {"step-1", file()});
    EXPECT_EQ(resume(*job.optimizer, root_.path(), other.user)->step, 1);
    EXPECT_EQ(other.bytes, own.bytes);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, LargeUserState, testing::Values(1, 2));

}  // namespace
}  // namespace shampoo::test
