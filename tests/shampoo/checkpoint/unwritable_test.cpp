// SPDX-License-Identifier: Apache-2.0
// Where the system itself refuses to write: full and read-only file systems, folders without leave.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

/// A file system in memory, at a folder of its own.
class SmallFileSystem {
 public:
  explicit SmallFileSystem(std::uintmax_t bytes) : size_("size=" + std::to_string(bytes)) {
    error_ = ::mount("none", folder_.path().c_str(), "tmpfs", 0, size_.c_str()) == 0 ? 0 : errno;
  }
  ~SmallFileSystem() {
    if (error_ == 0) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;

  /// Of the mount: only root may.
  int error() const { return error_; }
  std::filesystem::path root() const { return folder_.path() / "root"; }

  void change(unsigned long flags, const std::string& options) {
    const char* const path = folder_.path().c_str();
    if (::mount("none", path, "tmpfs", MS_REMOUNT | flags, options.c_str()) != 0)
      throw std::system_error(errno, std::generic_category(), "remount");
  }
  void make_read_only() { change(MS_RDONLY, size_); }
  void make_writable() { change(0, size_); }

 private:
  TemporaryFolder folder_;
  std::string size_;
  int error_ = 0;
};

std::uintmax_t bytes_below(const std::filesystem::path& folder) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

/// The error that an action must throw.
template <typename Action>
std::system_error thrown_by(const Action& action) {
  try {
    action();
  } catch (const std::system_error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return std::system_error(0, std::generic_category());
}

class Unwritable : public testing::Test {
 protected:
  static constexpr int ranks = 2;

  /// What a job does that cannot save: `refuse` makes it so, `allow` undoes it. The errors have
  /// this errno on all ranks, training has the bits of one that nothing disturbed, and the
  /// checkpoint of before and the one after are good.
  template <typename Refuse, typename Allow>
  void expect_no_harm(const std::filesystem::path& root, int expected, const Refuse& refuse,
                      const Allow& allow) {
    std::array<std::string, ranks> messages;
    run_ranks(ranks, [&](Communicator& communicator) {
      const bool first = communicator.rank() == 0;
      const auto on_first = [&](const auto& change) {
        communicator.barrier().wait();
        if (first) change();
        communicator.barrier().wait();
      };
      Job<float> job(communicator, trainee_, {});
      job.train(0, steps_before);
      save(*job.optimizer, root, user_state_of(job));
      on_first(refuse);

      job.train(steps_before, steps_before + 1);
      const auto error = thrown_by([&] { save(*job.optimizer, root, user_state_of(job)); });
      EXPECT_EQ(error.code().value(), expected) << error.what();
      messages[static_cast<std::size_t>(communicator.rank())] = error.what();
      AsyncCheckpointer checkpointer(*job.optimizer);
      const auto later = thrown_by([&] {
        checkpointer.start(root, user_state_of(job));
        checkpointer.wait();
      });
      EXPECT_EQ(later.code().value(), expected) << later.what();
      job.train(steps_before + 1, steps_before + steps_after);

      on_first(allow);
      EXPECT_EQ(end_of(job), train_first<float>(trainee_, {}, steps_before + steps_after));
      save(*job.optimizer, root, user_state_of(job));
    });
    EXPECT_EQ(messages[0], messages[1]);
    expect_says(messages[0], {"step-8", std::strerror(expected)});
    expect_good(root);
  }

  void expect_good(const std::filesystem::path& root) {
    const CheckpointListing listing = list_checkpoints(root);
    EXPECT_TRUE(listing.broken.empty());
    EXPECT_TRUE(listing.stale.empty());
    ASSERT_EQ(listing.complete.size(), 2U);
    for (const CompleteCheckpoint& folder : listing.complete)
      EXPECT_EQ(load_on<float>(folder.path, trainee_, {}, 0),
                train_first<float>(trainee_, {}, static_cast<int>(folder.step)));
  }

  Trainee trainee_ = everything();
};

TEST_F(Unwritable, FileSystemsThatAreFullFailASaveAndTrainingGoesOn) {
  TemporaryFolder elsewhere;
  const std::uintmax_t one = bytes_below(save_first<float>(elsewhere.path(), trainee_, {ranks}));
  // One and a half, and room for names.
  SmallFileSystem system(one * 3 / 2 + 16384);
  if (system.error() != 0) GTEST_SKIP() << "cannot mount: " << std::strerror(system.error());

  expect_no_harm(
      system.root(), ENOSPC, [] {},
      [&] { system.change(0, "size=" + std::to_string(4 * one + 65536)); });
}

TEST_F(Unwritable, FileSystemsThatAreReadOnlyFailASaveAndTrainingGoesOn) {
  SmallFileSystem system(64 << 20);
  if (system.error() != 0) GTEST_SKIP() << "cannot mount: " << std::strerror(system.error());

  expect_no_harm(
      system.root(), EROFS, [&] { system.make_read_only(); }, [&] { system.make_writable(); });
}

TEST_F(Unwritable, FoldersFailASaveAndTrainingGoesOn) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write into any folder";
  using std::filesystem::perms;
  TemporaryFolder folder;
  const auto root = folder.path() / "root";

  expect_no_harm(
      root, EACCES,
      [&] { std::filesystem::permissions(root, perms::owner_read | perms::owner_exec); },
      [&] { std::filesystem::permissions(root, perms::owner_all); });
}

}  // namespace
}  // namespace shampoo::test
