// SPDX-License-Identifier: Apache-2.0
// File systems that do not let go of old checkpoints, or of what a failed save wrote.
#include <gtest/gtest.h>

#include <cerrno>
#include <system_error>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using checkpoint::test::CallFault;
using checkpoint::test::Calls;
using checkpoint::test::CallWatch;
using checkpoint::test::Fate;

using Steps = std::vector<std::int64_t>;

/// Calls that begin like this and name this fail.
CallWatch::Decide refusing(const std::string& operation, const std::string& name,
                           CallFault fault = {Fate::fails, EBUSY}) {
  return [=](std::size_t, const std::string& call) {
    const bool fails = call.starts_with(operation + " ") && call.find(name) != call.npos;
    return fails ? fault : CallFault{};
  };
}

class FailingRemovals : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::int64_t step : {1, 2, 3}) save_as({.step = step});
  }

  void save_as(const SaveOptions& options) { save(*alone_.job.optimizer, root_, {}, options); }
  /// What a save says that must fail like this.
  std::string refusal(const CallWatch::Decide& decide, const SaveOptions& options) {
    const CallWatch watch(decide, Calls::all);
    return error_of<std::system_error>([&] { save_as(options); });
  }
  Steps steps() const {
    Steps steps;
    for (const auto& complete : list_checkpoints(root_).complete) steps.push_back(complete.step);
    return steps;
  }
  std::size_t stale() const { return list_checkpoints(root_).stale.size(); }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
  Alone alone_;
};

TEST_F(FailingRemovals, OfOneCheckpointLetTheOthersBeRemoved) {
  const auto stuck = refusing("rename", "/step-1 ");
  expect_says(refusal(stuck, {.step = 4, .keep_last = 1}),
              {"step-4 is complete", "step-1: rename", "busy"});
  EXPECT_EQ(steps(), (Steps{1, 4}));
  expect_says(refusal(stuck, {.step = 5, .keep_last = 1}), {"step-5 is complete"});
  EXPECT_EQ(steps(), (Steps{1, 5}));
  {
    const CallWatch watch(stuck);
    save_as({.step = 6});
    EXPECT_THROW(prune_checkpoints(root_, 1), std::system_error);
  }
  EXPECT_EQ(steps(), (Steps{1, 6}));
  EXPECT_EQ(prune_checkpoints(root_, 1), std::vector{root_ / "step-1"});
}

TEST_F(FailingRemovals, OfTheReplacedCheckpointLetTheOldOnesBeRemoved) {
  expect_says(
      refusal(refusing("unlink", "/step-3.tmp-"), {.step = 3, .keep_last = 1, .replace = true}),
      {"step-3 is complete", "step-3.tmp-", "busy"});
  EXPECT_EQ(steps(), Steps{3});
  EXPECT_EQ(stale(), 1U);
  save_as({.step = 4});
  EXPECT_EQ(stale(), 0U);
}

TEST_F(FailingRemovals, OfAStaleDirectoryLetTheOthersBeRemoved) {
  std::vector<std::filesystem::path> left;
  for (const std::int64_t step : {7, 8}) {
    left.push_back(root_ / checkpoint::temporary_name(step, checkpoint::new_save_id()));
    std::filesystem::create_directories(left.back() / "inside");
  }
  {
    const CallWatch watch(refusing("unlink", "/step-7.tmp-"), Calls::all);
    EXPECT_THROW(remove_stale_directories(root_), std::system_error);
  }
  EXPECT_EQ(list_checkpoints(root_).stale, std::vector{left.front()});
}

TEST_F(FailingRemovals, AreTriedAgainByTheNextSave) {
  expect_says(refusal(refusing("unlink", "/step-1.tmp-"), {.step = 4, .keep_last = 3}),
              {"step-4 is complete", "step-1.tmp-"});
  EXPECT_EQ(stale(), 1U);
  save_as({.step = 5});
  EXPECT_EQ(stale(), 0U);

  const auto full = [](std::size_t place, const std::string& call) {
    const CallFault fault = refusing("write", "/step-6.tmp-", {Fate::fails, ENOSPC})(place, call);
    return fault.fate == Fate::happens ? refusing("unlink", "/step-6.tmp-")(place, call) : fault;
  };
  expect_says(refusal(full, {.step = 6}), {"No space left"});
  EXPECT_EQ(stale(), 1U);
  save_as({.step = 6});
  EXPECT_EQ(stale(), 0U);
  EXPECT_EQ(steps(), (Steps{2, 3, 4, 5, 6}));
}

TEST_F(FailingRemovals, DoNotForgetAFolderWhoseMakingWasAnsweredWithAnError) {
  expect_says(
      refusal(refusing("mkdir", "/step-4.tmp-", {Fate::fails_though_done, EIO}), {.step = 4}),
      {"step-4.tmp-", "mkdir"});
  EXPECT_EQ(stale(), 0U);
}

}  // namespace
}  // namespace shampoo::test
