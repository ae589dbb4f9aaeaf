// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

constexpr int crashed = 99;

/// Runs the action in a child that ends, without any clean-up, before the call at `place`; a write
/// there still puts out its first byte if `torn`. The exit code is `crashed`, or 0 if there were
/// fewer calls.
int run_until(std::size_t place, bool torn, const std::function<void()>& action,
              const std::function<CallFault(const std::string&)>& fault = nullptr) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool over = false;
    const CallWatch watch([&](std::size_t call, const std::string& text) {
      if (over || (call == place && !torn)) ::_exit(crashed);
      over = torn && call == place;
      if (fault && !over) return fault(text);
      return CallFault{over && text.starts_with("write") ? Fate::shortened : Fate::happens};
    });
    try {
      action();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Crashes : public testing::TestWithParam<bool> {
 protected:
  static constexpr std::size_t most_calls = 1000;

  TemporaryFolder root_;
};

TEST_P(Crashes, OfASaveBetweenAnyTwoCallsKeepThePreviousCheckpointAndCanBeCleaned) {
  Sample{}.save(root_.path());
  const Sample next{.step = 2, .first = 3};
  int crashes = 0, complete = 0;
  for (std::size_t place = 0; place < most_calls; ++place) {
    const int code = run_until(place, GetParam(), [&] { next.save(root_.path()); });
    ASSERT_TRUE(Sample{}.equals(root_.path() / "step-1")) << place;
    const CheckpointListing listing = list_checkpoints(root_.path());
    ASSERT_TRUE(listing.broken.empty()) << place << listing.broken[0].fault;
    if (std::filesystem::exists(root_.path() / "step-2")) {
      ASSERT_TRUE(next.equals(root_.path() / "step-2")) << place;
      ++complete;
    }
    remove_stale_directories(root_.path());
    const std::ptrdiff_t left =
        std::distance(std::filesystem::directory_iterator(root_.path()), {});
    ASSERT_EQ(left, static_cast<std::ptrdiff_t>(list_checkpoints(root_.path()).complete.size()));
    if (code == 0) break;
    ASSERT_EQ(code, crashed) << place;
    ++crashes;
    std::filesystem::remove_all(root_.path() / "step-2");
  }
  EXPECT_GT(crashes, 20);
  EXPECT_GT(complete, 1);
  EXPECT_EQ(latest_checkpoint(root_.path()), root_.path() / "step-2");
  std::printf("row 7: %d crash points of a save\n", crashes);
}

/// On a file system that can exchange names, or not.
TEST_P(Crashes, OfASaveThatReplacesKeepOneOfTheTwo) {
  const Sample old, next{.first = 3};
  for (const bool exchanges : {true, false}) {
    int crashes = 0, replaced = 0;
    for (std::size_t place = 0; place < most_calls; ++place) {
      std::filesystem::remove_all(root_.path() / "step-1");
      old.save(root_.path());
      const auto fault = [exchanges](const std::string& call) {
        return !exchanges && call.starts_with("exchange ") ? CallFault{Fate::fails, EINVAL}
                                                           : CallFault{};
      };
      const int code = run_until(
          place, GetParam(), [&] { next.save(root_.path(), Existing::replace); }, fault);
      const CheckpointListing listing = list_checkpoints(root_.path());
      ASSERT_TRUE(listing.broken.empty()) << place << listing.broken[0].fault;
      ASSERT_EQ(listing.complete.size(), 1U) << place;
      const std::filesystem::path found = listing.complete[0].path;
      ASSERT_EQ(listing.complete[0].step, 1);
      const bool is_new = next.equals(found);
      ASSERT_TRUE(is_new || old.equals(found)) << place;
      replaced += is_new ? 1 : 0;
      remove_stale_directories(root_.path());
      ASSERT_TRUE(std::filesystem::exists(found)) << place;
      if (found.filename() != "step-1") {  // aside
        next.save(root_.path());
        remove_stale_directories(root_.path());
        ASSERT_TRUE(next.equals(root_.path() / "step-1")) << place;
      }
      ASSERT_EQ(std::distance(std::filesystem::directory_iterator(root_.path()), {}), 1) << place;
      if (code == 0) break;
      ASSERT_EQ(code, crashed) << place;
      ++crashes;
    }
    EXPECT_GT(crashes, 20);
    EXPECT_GT(replaced, 3);
    std::printf("row 7: %d crash points of a save that replaces\n", crashes);
  }
}

TEST_P(Crashes, OfPruningLeaveCompleteCheckpointsAndStaleDirectories) {
  int crashes = 0;
  for (std::size_t place = 0; place < most_calls; ++place) {
    for (const std::int64_t step : {1, 2, 3}) {
      std::filesystem::remove_all(root_.path() / folder_name(step));
      Sample{.step = step}.save(root_.path());
    }
    const int code = run_until(place, GetParam(), [&] { prune_checkpoints(root_.path(), 1); });
    const CheckpointListing listing = list_checkpoints(root_.path());
    ASSERT_TRUE(listing.broken.empty()) << place << listing.broken[0].fault;
    ASSERT_EQ(listing.complete.back().step, 3) << place;
    remove_stale_directories(root_.path());
    if (code == 0) break;
    ASSERT_EQ(code, crashed) << place;
    ++crashes;
  }
  EXPECT_GT(crashes, 4);
  std::printf("row 7: %d crash points of removing old checkpoints\n", crashes);
  EXPECT_EQ(list_checkpoints(root_.path()).complete.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Clean, Crashes, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Torn, Crashes, testing::Values(true));

TEST(CallsOfASave, SyncEveryFileAndFolderBeforeTheNameThatNeedsThem) {
  TemporaryFolder folder;
  const std::filesystem::path root = folder.path() / "root";
  const std::vector<std::string> calls = calls_of([&] { Sample{}.save(root); });
  const auto place = [&](const std::string& begin, const std::string& end) {
    const auto found = std::find_if(calls.begin(), calls.end(), [&](const std::string& call) {
      return call.starts_with(begin) && call.ends_with(end);
    });
    EXPECT_NE(found, calls.end()) << begin << " " << end;
    return found - calls.begin();
  };
  const auto last_place = [&](const std::string& begin, const std::string& middle) {
    std::ptrdiff_t last = -1;
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (calls[i].starts_with(begin) && calls[i].find(middle) != std::string::npos)
        last = static_cast<std::ptrdiff_t>(i);
    return last;
  };

  const auto named = place("open ", "/manifest.json");
  const auto final = place("rename_to_new ", "/step-1");
  EXPECT_LT(place("mkdir ", "/root"), place("fsync ", folder.path().filename()));
  EXPECT_LT(last_place("write ", "r0.safetensors"), place("fsync ", "r0.safetensors"));
  EXPECT_LT(last_place("write ", "r1.safetensors"), place("fsync ", "r1.safetensors"));
  for (const char* file : {"r0.safetensors", "r1.safetensors"})
    EXPECT_LT(place("fsync ", file), named) << file;
  EXPECT_LT(place("fsync ", "/manifest.json"), final);
  const auto in_temporary = [&](const std::string& call) {
    return call.starts_with("fsync ") && call.find(".tmp-") != std::string::npos &&
           call.find("safetensors") == std::string::npos &&
           call.find("manifest") == std::string::npos;
  };
  EXPECT_TRUE(std::any_of(calls.begin(), calls.begin() + named, in_temporary));
  EXPECT_TRUE(std::any_of(calls.begin() + named, calls.begin() + final, in_temporary));
  EXPECT_TRUE(std::any_of(calls.begin() + final, calls.end(), [](const std::string& call) {
    return call.starts_with("fsync ") && call.ends_with("/root");
  }));
}

}  // namespace
}  // namespace shampoo::checkpoint::test
