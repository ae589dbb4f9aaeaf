// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

class FailingCalls : public testing::Test {
 protected:
  void SetUp() override { Sample{}.save(root_.path()); }

  TemporaryFolder root_;
  Sample next_{.step = 2, .first = 3};
};

TEST_F(FailingCalls, MakeASaveFailWithTheirErrorAndLeaveThePreviousCheckpoint) {
  for (const int error : {ENOSPC, EIO, EDQUOT, EACCES}) {
    std::vector<std::string> made = calls_of([&] { next_.save(root_.path()); });
    std::filesystem::remove_all(root_.path() / "step-2");
    for (std::size_t place = 0; place < made.size(); ++place) {
      std::string failed;
      const auto fail_one = [&](std::size_t call, const std::string& text) {
        if (call != place) return CallFault{};
        failed = text;
        return CallFault{Fate::fails, error};
      };
      try {
        const CallWatch watch(fail_one);
        next_.save(root_.path());
        // Closing what was only read or synced is no failure, and the directory lies in a folder
        // of somebody else.
        const bool of_parent = failed.ends_with(" " + root_.path().parent_path().string());
        EXPECT_TRUE(failed.starts_with("close ") || (of_parent && error == EACCES)) << failed;
      } catch (const std::system_error& thrown) {
        EXPECT_EQ(thrown.code().value(), error) << failed;
        EXPECT_FALSE(std::filesystem::exists(root_.path() / "step-2")) << failed;
      }
      ASSERT_TRUE(Sample{}.equals(root_.path() / "step-1")) << failed;
      ASSERT_TRUE(list_checkpoints(root_.path()).broken.empty()) << failed;
      EXPECT_TRUE(list_checkpoints(root_.path()).stale.empty()) << failed;
      std::filesystem::remove_all(root_.path() / "step-2");
    }
    std::printf("row 8: %zu calls that fail with error %d\n", made.size(), error);
  }
}

TEST_F(FailingCalls, AreNamedWithTheFileAndTheOperation) {
  const auto message = [&](const std::string& operation, const std::string& file) {
    return message_of<std::system_error>([&] {
      const CallWatch watch([&](std::size_t, const std::string& call) {
        const bool this_one = call.starts_with(operation + " ") && call.ends_with(file) &&
                              call.find("step-1/") == std::string::npos;
        return this_one ? CallFault{Fate::fails, ENOSPC} : CallFault{};
      });
      next_.save(root_.path());
    });
  };
  for (const char* file : {"r0.safetensors", "r1.safetensors", "manifest.json"})
    for (const char* operation : {"open", "write", "fsync", "close"}) {
      const std::string said = operation == std::string("open") ? "create" : operation;
      const std::string text = message(operation, file);
      EXPECT_NE(text.find(std::string(file) + ": " + said + ": No space left"), std::string::npos)
          << operation << " " << file << ": " << text;
    }
  EXPECT_NE(message("rename_to_new", "/step-2").find("/step-2: No space left"), std::string::npos);
  EXPECT_TRUE(list_checkpoints(root_.path()).stale.empty());
}

TEST_F(FailingCalls, ThatAreShortOrInterruptedGoOn) {
  bool again = false;
  std::size_t interrupted = 0;
  const CallWatch watch([&](std::size_t, const std::string& call) {
    again = !again;
    const bool may_be = call.starts_with("write") || call.starts_with("fsync");
    interrupted += may_be && again ? 1 : 0;
    if (may_be && again) return CallFault{Fate::fails, EINTR};
    return CallFault{Fate::shortened};
  });
  next_.save(root_.path());
  EXPECT_GT(interrupted, 100U);
  EXPECT_TRUE(next_.equals(root_.path() / "step-2"));
}

TEST_F(FailingCalls, LeaveAFullCheckpointOrAStaleDirectoryWhereNothingCanBeUndone) {
  const std::size_t count = calls_of([&] { next_.save(root_.path()); }).size();
  std::filesystem::remove_all(root_.path() / "step-2");
  for (std::size_t place = 0; place < count; ++place) {
    try {
      const CallWatch watch([&](std::size_t call, const std::string& text) {
        const bool close = text.starts_with("close ");
        return call >= place && !close ? CallFault{Fate::fails, EIO} : CallFault{};
      });
      next_.save(root_.path());
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EIO);
    }
    ASSERT_TRUE(Sample{}.equals(root_.path() / "step-1")) << place;
    ASSERT_TRUE(list_checkpoints(root_.path()).broken.empty()) << place;
    remove_stale_directories(root_.path());
    ASSERT_TRUE(list_checkpoints(root_.path()).stale.empty()) << place;
    std::filesystem::remove_all(root_.path() / "step-2");
  }
}

}  // namespace
}  // namespace shampoo::checkpoint::test
