// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/command/asked.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::command::test {
namespace {

using checkpoint::test::CallFault;
using checkpoint::test::CallWatch;
using checkpoint::test::put;
using checkpoint::test::Sample;
using checkpoint::test::TemporaryFolder;

/// list, clean and retain.
class Directories : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::int64_t step : {9, 100, 10}) Sample{.step = step}.save(root());
    stale_ = root() / temporary_name(11, new_save_id());
    std::filesystem::create_directories(stale_ / "inside");
    std::filesystem::remove(Sample{.step = 12}.save(root()) / "r1.safetensors");
    std::filesystem::create_directory_symlink(root() / "step-9", root() / "step-13");
  }

  const std::filesystem::path& root() const { return root_.path(); }
  bool exists(const std::string& name) const { return std::filesystem::exists(root() / name); }

  std::filesystem::path stale_;

 private:
  TemporaryFolder root_;
};

TEST_F(Directories, ListCompleteBrokenAndStale) {
  const auto json = ask({"list", root(), "--json"}).json();

  ASSERT_EQ(json.at("complete").size(), 3);
  EXPECT_EQ(json.at("complete")[0].at("step"), 9);
  EXPECT_EQ(json.at("complete")[1].at("step"), 100);
  EXPECT_EQ(json.at("complete")[2].at("step"), 10);
  EXPECT_EQ(json.at("complete")[2].at("sequence"), 3);
  EXPECT_EQ(json.at("complete")[0].at("ranks"), 2);
  EXPECT_EQ(json.at("complete")[0].at("parameters"), 1);
  EXPECT_EQ(json.at("broken").size(), 1);
  EXPECT_EQ(json.at("stale"), (std::vector<std::string>{stale_}));
  const Answer text = ask({"list", root()});
  EXPECT_EQ(text.status, 0);
  EXPECT_TRUE(text.text.starts_with("  step  from step  ranks  parameters  files")) << text.text;
  EXPECT_TRUE(text.has("broken: " + (root() / "step-12").string())) << text.text;
  EXPECT_TRUE(text.has("stale: " + stale_.string())) << text.text;
}

TEST_F(Directories, LeaveOutOfTheListWhatIsPrunedMeanwhile) {
  const std::string manifest = "open " + (root() / "step-100" / manifest_name).string();
  int opened = 0;
  const CallWatch watch([&](std::size_t, const std::string& call) {
    // Its first line and the whole of it, to find that it is complete; then for its row.
    if (call == manifest && ++opened == 3) std::filesystem::remove_all(root() / "step-100");
    return CallFault{};
  });
  const auto json = ask({"list", root(), "--json"}).json();
  EXPECT_EQ(opened, 3);
  ASSERT_EQ(json.at("complete").size(), 2);
  EXPECT_EQ(json.at("complete")[0].at("step"), 9);
  EXPECT_EQ(json.at("complete")[1].at("step"), 10);
}

TEST_F(Directories, WithoutACheckpointSaySo) {
  const TemporaryFolder empty;

  EXPECT_TRUE(ask({"list", empty.path()}).has("no complete checkpoint"));
  EXPECT_TRUE(ask({"clean", empty.path()}).has("nothing to remove"));
  EXPECT_TRUE(ask({"retain", empty.path(), "--last", "1"}).has("nothing to remove"));
  for (const char* task : {"list", "clean"}) {
    EXPECT_THROW(ask({task, empty.path() / "none"}), CheckpointError);
    EXPECT_THROW(ask({task, root() / "step-9"}), CheckpointError);
  }
}

TEST_F(Directories, LoseOnlyWhatIsStale) {
  EXPECT_TRUE(ask({"clean", root(), "--dry-run"}).has("would remove " + stale_.string()));
  EXPECT_TRUE(std::filesystem::exists(stale_));
  EXPECT_TRUE(ask({"clean", root()}).has("removed " + stale_.string()));

  EXPECT_FALSE(std::filesystem::exists(stale_));
  for (const char* name : {"step-9", "step-10", "step-12", "step-100", "step-13"})
    EXPECT_TRUE(exists(name)) << name;
}

TEST_F(Directories, KeepThoseThatWereWrittenLast) {
  ask({"retain", root(), "--last", "2", "--dry-run"});
  EXPECT_TRUE(exists("step-9"));
  EXPECT_EQ(ask({"retain", root(), "--last", "3", "--json"}).json().at("removed").size(), 0);
  EXPECT_TRUE(ask({"retain", root(), "--last", "2"}).has("removed"));

  EXPECT_FALSE(exists("step-9"));
  for (const char* name : {"step-10", "step-12", "step-100"}) EXPECT_TRUE(exists(name)) << name;
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
