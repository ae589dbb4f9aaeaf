// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/pending_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <stdexcept>
#include <system_error>

#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/checkpoint_order.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint_directory.h"
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
  EXPECT_EQ(latest_checkpoint(root_), root_ / "step-3") << "written last";
}

TEST_F(Saves, NeverTouchWhatExistsAndIsNoBrokenCheckpoint) {
  Sample{}.save(root_);
  const auto refusal = [&](std::int64_t step) {
    return message_of<std::invalid_argument>([&] { Sample{.step = step, .first = 9}.save(root_); });
  };
  EXPECT_NE(refusal(1).find("step-1 exists"), std::string::npos);
  put(root_ / "step-3", "a file");
  EXPECT_NE(refusal(3), "");
  std::filesystem::create_symlink("nowhere", root_ / "step-4");
  EXPECT_NE(refusal(4).find("step-4 exists, and is a symbolic link"), std::string::npos);

  EXPECT_EQ(entries(), (std::vector<std::string>{"step-1", "step-3", "step-4"}));
  EXPECT_TRUE(Sample{}.equals(root_ / "step-1"));
}

TEST_F(Saves, RefuseBadPlaces) {
  EXPECT_THROW(PendingCheckpoint(root_, -1, new_save_id()), std::invalid_argument);
  EXPECT_THROW(PendingCheckpoint(root_, 1, "../x"), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(root_));
  put(folder_.path() / "file", "");
  EXPECT_THROW(Sample{}.save(folder_.path() / "file" / "root"), std::system_error);
}

TEST_F(Saves, DoNotTakeADirectoryBehindALinkThatLeadsNowhereForOneToBeMade) {
  const std::filesystem::path link = folder_.path() / "link";
  std::filesystem::create_directory_symlink("elsewhere", link);
  for (const std::filesystem::path& directory : {link, link / "", link / "checkpoints"}) {
    const std::string message = message_of<std::system_error>([&] { list_checkpoints(directory); });
    EXPECT_NE(message.find("link: a symbolic link that leads nowhere"), std::string::npos)
        << directory << ": " << message;
    EXPECT_THROW(make_folders(directory), std::system_error) << directory;
  }
  std::filesystem::create_directory(folder_.path() / "elsewhere");
  EXPECT_TRUE(list_checkpoints(link).complete.empty());
  EXPECT_TRUE(list_checkpoints(link / "checkpoints").complete.empty());
  Sample{}.save(link / "checkpoints");
  EXPECT_TRUE(Sample{}.equals(folder_.path() / "elsewhere" / "checkpoints" / "step-1"));
}

TEST_F(Saves, ThatAreDiscardedLeaveNothingUnlessTheyAreReleased) {
  Sample{}.save(root_);
  for (int stages = 1; stages <= 4; ++stages) {
    PendingCheckpoint pending(root_, 2, new_save_id());
    pending.create();
    Manifest manifest;
    if (stages > 1) manifest = Sample{.step = 2}.write(pending.temporary(), pending.save());
    if (stages > 2) pending.commit(manifest);
    if (stages > 3) pending.release();
    pending.discard();
    EXPECT_EQ(entries().size(), stages < 4 ? 1U : 2U) << stages;
  }
  EXPECT_TRUE(Sample{.step = 2}.equals(root_ / "step-2"));
}

TEST_F(Saves, RefuseManifestsThatDoNotFitTheFiles) {
  const auto refusal = [&](const auto& spoil) {
    PendingCheckpoint pending(root_, 1, new_save_id());
    pending.create();
    Manifest manifest = Sample{}.write(pending.temporary(), pending.save());
    spoil(manifest);
    const std::string message = message_of<std::exception>([&] { pending.commit(manifest); });
    pending.discard();
    return message;
  };
  EXPECT_NE(refusal([](Manifest& m) { m.save = new_save_id(); }), "");
  EXPECT_NE(refusal([](Manifest& m) { m.step = 2; }), "");
  EXPECT_NE(refusal([](Manifest& m) { ++m.files[1].bytes; }), "");
  EXPECT_NE(refusal([](Manifest& m) { m.files.push_back({"r2.safetensors", 8, 0}); }), "");
  EXPECT_NE(refusal([](Manifest& m) { m.parameters[0].files.pop_back(); }), "");
  EXPECT_EQ(entries(), std::vector<std::string>{});
}

TEST_F(Saves, AreRemovedOnlyByTheProcessThatCreatedThem) {
  PendingCheckpoint first(root_, 1, new_save_id());
  PendingCheckpoint other(root_, 1, first.save());
  first.create();
  put(other.temporary() / "r1.safetensors", "x");

  other.discard();

  EXPECT_EQ(content_of(first.temporary() / "r1.safetensors"), "x");
  first.discard();
  EXPECT_EQ(entries(), std::vector<std::string>{});
}

TEST_F(Saves, AreListedAsCompleteBrokenOrStale) {
  EXPECT_TRUE(list_checkpoints(root_).complete.empty());
  Sample{.step = 9}.save(root_);
  Sample{.step = 10}.save(root_);
  Sample{.step = 11}.save(root_);
  std::filesystem::resize_file(root_ / "step-11" / "r1.safetensors", 50);
  std::filesystem::rename(Sample{.step = 12}.save(root_), root_ / "step-13");
  const auto stale = leave(temporary_name(12, new_save_id()));
  for (const char* other : {"step-", "step-07", "step--1", "step-1x", "step-1.tmp-x", "best",
                            "step-99999999999999999999", "step-5.tmp-"})
    leave(other);
  put(root_ / "step-6", "file");
  std::filesystem::create_directory_symlink("step-10", root_ / "step-14");
  std::filesystem::create_directory_symlink("step-10", root_ / temporary_name(1, new_save_id()));

  const CheckpointListing listing = list_checkpoints(root_);

  ASSERT_EQ(listing.complete.size(), 2U);
  EXPECT_EQ(listing.complete[0].step, 9);
  EXPECT_EQ(listing.complete[1].step, 10);
  EXPECT_EQ(listing.stale, Paths{stale});
  ASSERT_EQ(listing.broken.size(), 2U);
  EXPECT_EQ(listing.broken[0].path, root_ / "step-11");
  EXPECT_NE(listing.broken[0].fault.find("r1.safetensors: 50 bytes"), std::string::npos)
      << listing.broken[0].fault;
  EXPECT_EQ(listing.broken[1].path, root_ / "step-13");
  EXPECT_EQ(latest_checkpoint(root_), root_ / "step-10");
}

TEST_F(Saves, AreListedAgainWhereOthersRemoveThemMeanwhile) {
  Sample{}.save(root_);
  NewestFirst checkpoints(root_);
  std::filesystem::remove_all(root_ / "step-1");
  Sample{.step = 2}.save(root_);
  const auto found = checkpoints.next();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2);
  EXPECT_EQ(checkpoints.next(), std::nullopt);
}

TEST_F(Saves, CountFromSequencesThatAChecksumConfirms) {
  const std::filesystem::path manifest = Sample{}.save(root_) / manifest_name;
  const std::regex sequence("\"sequence\": ?[0-9]+");
  const std::string content = content_of(manifest);
  ASSERT_TRUE(std::regex_search(content, sequence));
  put(manifest, std::regex_replace(content, sequence, "\"sequence\": 9223372036854775807"));
  ASSERT_EQ(list_checkpoints(root_).broken.size(), 1U);
  Sample{.step = 2}.save(root_);
  EXPECT_EQ(latest_checkpoint(root_), root_ / "step-2");
}

TEST_F(Saves, ThatAreStaleAreRemovedAndNothingElse) {
  Sample{}.save(root_);
  const Paths left{leave(temporary_name(0, new_save_id())),
                   leave(temporary_name(1, new_save_id()))};
  std::filesystem::create_directory_symlink(root_ / "step-1", left[1] / "link");
  leave("step-2");
  leave("precious");

  EXPECT_EQ(remove_stale_directories(root_), left);

  EXPECT_EQ(entries(), (std::vector<std::string>{"precious", "step-1", "step-2"}));
  EXPECT_TRUE(Sample{}.equals(root_ / "step-1"));
  EXPECT_EQ(remove_stale_directories(root_), Paths{});
}

TEST_F(Saves, AreRetainedInTheOrderOfWriting) {
  for (const std::int64_t step : {8, 11, 10, 9}) Sample{.step = step}.save(root_);
  std::filesystem::remove(root_ / "step-11" / "manifest.json");

  EXPECT_THROW(prune_checkpoints(root_, 0), std::invalid_argument);
  EXPECT_EQ(prune_checkpoints(root_, 3), Paths{});
  EXPECT_EQ(prune_checkpoints(root_, 1), (Paths{root_ / "step-8", root_ / "step-10"}));
  EXPECT_EQ(entries(), (std::vector<std::string>{"step-11", "step-9"}));
}

TEST_F(Saves, ReplaceABrokenCheckpointOfTheirStep) {
  Sample{}.save(root_);
  const auto breaks = std::vector<std::function<void()>>{
      [&] { std::filesystem::remove(root_ / "step-1" / "manifest.json"); },
      [&] { std::filesystem::remove(root_ / "step-1" / "r1.safetensors"); },
      [&] { std::filesystem::resize_file(root_ / "step-1" / "r0.safetensors", 50); },
      [&] { std::filesystem::resize_file(root_ / "step-1" / "manifest.json", 300); },
      [&] {
        std::filesystem::remove_all(root_ / "step-1"),
            std::filesystem::create_directory(root_ / "step-1");
      }};
  for (std::size_t i = 0; i < breaks.size(); ++i) {
    breaks[i]();
    const Sample again{.first = static_cast<double>(i)};
    EXPECT_EQ(again.save(root_), root_ / "step-1");
    EXPECT_TRUE(again.equals(root_ / "step-1")) << i;
    EXPECT_EQ(entries(), std::vector<std::string>{"step-1"}) << i;
  }
}

TEST_F(Saves, ReplaceACompleteCheckpointOnlyWhereTheyAreTold) {
  Sample{}.save(root_);
  Sample{.step = 2}.save(root_);
  const Sample other{.first = 9};
  EXPECT_NE(message_of<std::invalid_argument>([&] {
              other.save(root_);
            }).find("step-1 exists; SaveOptions::replace"),
            std::string::npos);
  EXPECT_TRUE(Sample{}.equals(root_ / "step-1"));
  other.save(root_, Existing::replace);
  EXPECT_TRUE(other.equals(root_ / "step-1"));
  EXPECT_EQ(entries(), (std::vector<std::string>{"step-1", "step-2"}));
  EXPECT_EQ(latest_checkpoint(root_), root_ / "step-1");
}

TEST_F(Saves, ThatAreAsideAreTheCheckpointOfTheirStepUntilThereIsANewOne) {
  Sample{.step = 2}.save(root_);
  const auto aside = root_ / replaced_name(1, new_save_id());
  std::filesystem::rename(Sample{}.save(root_), aside);
  EXPECT_EQ(latest_checkpoint(root_), aside);
  EXPECT_EQ(remove_stale_directories(root_), Paths{});
  EXPECT_TRUE(Sample{}.equals(aside));

  Sample{.first = 4}.save(root_);
  EXPECT_EQ(list_checkpoints(root_).complete.size(), 2U);
  EXPECT_EQ(list_checkpoints(root_).stale, Paths{aside});
  EXPECT_EQ(remove_stale_directories(root_), Paths{aside});
}

TEST_F(Saves, ThatAreTakenBackLeaveTheOldCheckpoint) {
  Sample{}.save(root_);
  PendingCheckpoint pending(root_, 1, new_save_id(), Existing::replace);
  pending.create();
  pending.commit(Sample{.first = 9}.write(pending.temporary(), pending.save()));
  EXPECT_TRUE((Sample{.first = 9}.equals(root_ / "step-1")));
  pending.discard();
  EXPECT_TRUE(Sample{}.equals(root_ / "step-1"));
  EXPECT_EQ(entries(), std::vector<std::string>{"step-1"});
}

}  // namespace
}  // namespace shampoo::checkpoint::test
