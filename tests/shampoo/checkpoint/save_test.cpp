// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/save.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/storage/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

using Paths = std::vector<std::filesystem::path>;

class Saves : public testing::Test {
 protected:
  /// Everything in the root, by name.
  std::vector<std::string> entries() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::filesystem::path leave(const std::string& name) {
    std::filesystem::create_directories(root_ / name);
    put(root_ / name / "r0.safetensors", "half");
    return root_ / name;
  }

  TemporaryFolder folder_;
  std::filesystem::path root_ = folder_.path() / "deep" / "checkpoints";
};

TEST_F(Saves, MakeOneFolderPerStep) {
  EXPECT_EQ(Sample{}.save(root_), root_ / "step-1");
  EXPECT_EQ((Sample{.step = 20, .first = 7}.save(root_)), root_ / "step-20");
  EXPECT_EQ((Sample{.step = 3, .first = 8}.save(root_)), root_ / "step-3");

  EXPECT_EQ(entries(), (std::vector<std::string>{"step-1", "step-20", "step-3"}));
  EXPECT_TRUE(Sample{}.equals(root_ / "step-1"));
  EXPECT_TRUE((Sample{.step = 20, .first = 7}.equals(root_ / "step-20")));
  EXPECT_EQ(latest_folder(root_), root_ / "step-20");
}

TEST_F(Saves, NeverTouchWhatExists) {
  Sample{}.save(root_);
  const auto refusal = [&](std::int64_t step) {
    return message_of<std::invalid_argument>([&] { Sample{.step = step, .first = 9}.save(root_); });
  };
  EXPECT_NE(refusal(1).find("step-1 exists"), std::string::npos);
  std::filesystem::create_directory(root_ / "step-2");
  EXPECT_NE(refusal(2), "");
  put(root_ / "step-3", "a file");
  EXPECT_NE(refusal(3), "");
  std::filesystem::create_symlink("nowhere", root_ / "step-4");
  EXPECT_NE(refusal(4), "");

  EXPECT_EQ(entries(), (std::vector<std::string>{"step-1", "step-2", "step-3", "step-4"}));
  EXPECT_TRUE(Sample{}.equals(root_ / "step-1"));
}

TEST_F(Saves, RefuseBadPlaces) {
  const SaveSteps nothing{[](const auto&) {}, [] { return Manifest{}; }, lone_vote};
  EXPECT_THROW(save_folder({root_, -1, new_save_id()}, nothing), std::invalid_argument);
  EXPECT_THROW(save_folder({root_, 1, "../x"}, nothing), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(root_));
  put(folder_.path() / "file", "");
  EXPECT_THROW(Sample{}.save(folder_.path() / "file" / "root"), std::system_error);
}

TEST_F(Saves, LeaveNothingWhereAnyStageFailsOnAnotherRank) {
  Sample{}.save(root_);
  for (int failing = 1; failing <= 4; ++failing) {
    int vote = 0;
    Manifest manifest;
    const SavePlace place{root_, 2, new_save_id()};
    const auto write = [&](const std::filesystem::path& folder) {
      manifest = Sample{.step = 2}.write(folder, place.save);
    };
    const auto another_fails = [&](const std::exception_ptr& mine) {
      lone_vote(mine);
      if (++vote == failing) throw std::runtime_error("rank 3: disk full");
    };
    EXPECT_THROW(save_folder(place, {write, [&] { return manifest; }, another_fails}),
                 std::runtime_error);
    // After the last stage the checkpoint is complete.
    EXPECT_EQ(entries().size(), failing < 4 ? 1U : 2U) << failing;
  }
  EXPECT_TRUE(Sample{.step = 2}.equals(root_ / "step-2"));
}

TEST_F(Saves, RefuseManifestsThatDoNotFitTheFiles) {
  const auto saved = [&](const auto& spoil) {
    Manifest manifest;
    const SavePlace place{root_, 1, new_save_id()};
    return message_of<std::exception>([&] {
      save_folder(place, {[&](const std::filesystem::path& folder) {
                            manifest = Sample{}.write(folder, place.save);
                          },
                          [&] {
                            spoil(manifest);
                            return manifest;
                          },
                          lone_vote});
    });
  };
  EXPECT_NE(saved([](Manifest& m) { m.save = new_save_id(); }), "");
  EXPECT_NE(saved([](Manifest& m) { m.step = 2; }), "");
  EXPECT_NE(saved([](Manifest& m) { ++m.files[1].bytes; }), "");
  EXPECT_NE(saved([](Manifest& m) { m.files.push_back({"r2.safetensors", 8, 0}); }), "");
  EXPECT_NE(saved([](Manifest& m) { m.tensors[0].pieces.pop_back(); }), "");
  EXPECT_EQ(entries(), std::vector<std::string>{});
}

TEST_F(Saves, OfAnotherRankWriteOnlyItsFiles) {
  const SavePlace place{root_, 1, new_save_id(), 1};
  const auto folder = leave(temporary_name(1, place.save));
  int votes = 0;
  const auto vote = [&](const std::exception_ptr& mine) {
    ++votes;
    lone_vote(mine);
  };
  save_folder(place, {[](const auto& inside) { put(inside / "r1.safetensors", "x"); },
                      [] { return Manifest{}; }, vote});
  EXPECT_EQ(votes, 4);
  EXPECT_EQ(content_of(folder / "r1.safetensors"), "x");

  const auto failing = [](const auto&) { throw std::runtime_error("mine"); };
  EXPECT_THROW(save_folder(place, {failing, [] { return Manifest{}; }, vote}), std::runtime_error);
  EXPECT_TRUE(std::filesystem::exists(folder)) << "removing it is for rank 0";
}

/// Every rank learns the first rank's fault that threw.
class SharedVote {
 public:
  explicit SharedVote(int ranks) : faults_(static_cast<std::size_t>(ranks)), meet_(ranks) {}

  void operator()(int rank, const std::exception_ptr& mine) {
    faults_[static_cast<std::size_t>(rank)] = mine;
    meet_.arrive_and_wait();
    const std::vector<std::exception_ptr> faults = faults_;
    meet_.arrive_and_wait();
    for (const std::exception_ptr& fault : faults)
      if (fault) std::rethrow_exception(fault);
  }

 private:
  std::vector<std::exception_ptr> faults_;
  std::barrier<> meet_;
};

TEST_F(Saves, FailOnAllRanksWithTheErrorOfOne) {
  Sample{}.save(root_);
  constexpr int ranks = 3;
  const std::string save = new_save_id();
  SharedVote vote(ranks);
  std::vector<std::string> messages(ranks);
  const auto run = [&](int rank) {
    const auto write = [&](const std::filesystem::path& folder) {
      put(folder / ("r" + std::to_string(rank)), "x");
      if (rank == 1) throw std::system_error(ENOSPC, std::generic_category(), "rank 1: write");
    };
    const SaveSteps steps{write, [] { return Manifest{}; },
                          [&, rank](const std::exception_ptr& mine) { vote(rank, mine); }};
    messages[static_cast<std::size_t>(rank)] = message_of<std::system_error>([&] {
      save_folder({root_, 2, save, rank}, steps);
    });
  };
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();

  for (const std::string& message : messages)
    EXPECT_EQ(message, "rank 1: write: No space left on device");
  EXPECT_EQ(entries(), std::vector<std::string>{"step-1"});
}

TEST_F(Saves, AreListedAsCompleteBrokenOrLeftOver) {
  EXPECT_TRUE(list_folders(root_).complete.empty());
  Sample{.step = 9}.save(root_);
  Sample{.step = 10}.save(root_);
  Sample{.step = 11}.save(root_);
  std::filesystem::resize_file(root_ / "step-11" / "r1.safetensors", 50);
  std::filesystem::rename(Sample{.step = 12}.save(root_), root_ / "step-13");
  const auto leftover = leave(temporary_name(12, new_save_id()));
  for (const char* other : {"step-", "step-07", "step--1", "step-1x", "step-1.tmp-x", "best",
                            "step-99999999999999999999", "step-5.tmp-"})
    leave(other);
  put(root_ / "step-6", "file");
  std::filesystem::create_directory_symlink("step-10", root_ / "step-14");
  std::filesystem::create_directory_symlink("step-10", root_ / temporary_name(1, new_save_id()));

  const Listing listing = list_folders(root_);

  ASSERT_EQ(listing.complete.size(), 2U);
  EXPECT_EQ(listing.complete[0].step, 9);
  EXPECT_EQ(listing.complete[1].step, 10);
  EXPECT_EQ(listing.leftovers, Paths{leftover});
  ASSERT_EQ(listing.broken.size(), 2U);
  EXPECT_EQ(listing.broken[0].path, root_ / "step-11");
  EXPECT_NE(listing.broken[0].fault.find("r1.safetensors: 50 bytes"), std::string::npos)
      << listing.broken[0].fault;
  EXPECT_EQ(listing.broken[1].path, root_ / "step-13");
  EXPECT_EQ(latest_folder(root_), root_ / "step-10");
}

TEST_F(Saves, ThatWereLeftAreRemovedAndNothingElse) {
  Sample{}.save(root_);
  const Paths left{leave(temporary_name(0, new_save_id())),
                   leave(temporary_name(1, new_save_id()))};
  std::filesystem::create_directory_symlink(root_ / "step-1", left[1] / "link");
  leave("step-2");
  leave("precious");

  EXPECT_EQ(remove_leftovers(root_), left);

  EXPECT_EQ(entries(), (std::vector<std::string>{"precious", "step-1", "step-2"}));
  EXPECT_TRUE(Sample{}.equals(root_ / "step-1"));
  EXPECT_EQ(remove_leftovers(root_), Paths{});
}

TEST_F(Saves, AreRetainedByTheirStep) {
  for (const std::int64_t step : {8, 9, 10, 11}) Sample{.step = step}.save(root_);
  std::filesystem::remove(root_ / "step-9" / "manifest.json");

  EXPECT_THROW(retain_latest(root_, 0), std::invalid_argument);
  EXPECT_EQ(retain_latest(root_, 3), Paths{});
  EXPECT_EQ(retain_latest(root_, 1), (Paths{root_ / "step-8", root_ / "step-10"}));
  EXPECT_EQ(entries(), (std::vector<std::string>{"step-11", "step-9"}));
}

}  // namespace
}  // namespace shampoo::checkpoint::test
