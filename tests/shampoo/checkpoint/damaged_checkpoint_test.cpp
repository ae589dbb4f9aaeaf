// SPDX-License-Identifier: Apache-2.0
// Every damage of a small checkpoint: load() refuses it and changes nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/format/safetensors_writer.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/shampoo/checkpoint/damage.h"

namespace shampoo::test {
namespace {

constexpr const char* manifest_file = "manifest.json";
constexpr std::array<const char*, 2> shards{"shard-00000-of-00002.safetensors",
                                            "shard-00001-of-00002.safetensors"};
constexpr std::array<const char*, 3> all_files{shards[0], shards[1], manifest_file};

class DamagedCheckpoints : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = save_with_epoch(root_.path());
    alone_.job.train(0, 2);
    user_ = user_state_of(alone_.job);
    user_.values["epoch"] = std::int64_t{3};
    take_stock();
    for (const char* file : all_files) contents_[file] = content_of(folder_ / file);
  }

  static std::filesystem::path save_with_epoch(const std::filesystem::path& root) {
    std::filesystem::path folder;
    run_ranks(2, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      job.train(0, steps_before);
      UserState user = user_state_of(job);
      user.values["epoch"] = std::int64_t{5};
      const auto made = save(*job.optimizer, root, user);
      if (communicator.rank() == 0) folder = made;
    });
    return folder;
  }

  /// All damage is undone: the checkpoint is good, and the optimizer can still be used.
  void TearDown() override {
    load(*alone_.job.optimizer, folder_, user_);
    EXPECT_EQ(std::get<std::int64_t>(user_.values.at("epoch")), 5);
    EXPECT_EQ(alone_.job.optimizer->steps("tensor0"), steps_before);
    alone_.job.train(steps_before, steps_before + 1);
  }

  void take_stock() {
    before_ = end_of(alone_.job);
    bytes_ = state_of(*alone_.job.optimizer, alone_.job.model);
  }

  void write(const std::string& file, const std::string& content) {
    std::filesystem::remove_all(folder_ / file);
    std::ofstream(folder_ / file, std::ios::binary) << content;
  }
  void restore() {
    for (const char* file : all_files) write(file, contents_.at(file));
  }
  const std::string& content(const std::string& file) const { return contents_.at(file); }

  /// load() throws a CheckpointError or a std::system_error that names `file`; nothing changes.
  void expect_refusal(const std::string& file, const std::string& damage) {
    std::string message;
    try {
      load(*alone_.job.optimizer, root_.path(), user_);
    } catch (const CheckpointError& error) {
      message = error.what();
    } catch (const std::system_error& error) {
      message = error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << damage << ": another exception: " << error.what();
    }
    EXPECT_NE(message.find(file), std::string::npos) << damage << ": '" << message << "'";
    expect_no_change(damage);
  }

  void expect_no_change(const std::string& damage) {
    ++cases_;
    EXPECT_EQ(state_of(*alone_.job.optimizer, alone_.job.model), bytes_) << damage;
    EXPECT_EQ(alone_.job.values(), before_.values) << damage;
    EXPECT_EQ(std::get<std::int64_t>(user_.values.at("epoch")), 3) << damage;
    // Slower, and counters change together.
    if (cases_ % 64 == 1) {
      EXPECT_EQ(end_of(alone_.job), before_) << damage;
    }
  }

  void expect_refusal_of(const std::string& file, const std::string& changed,
                         const std::string& damage) {
    write(file, changed);
    expect_refusal(file, file + " " + damage);
    write(file, content(file));
  }

  void expect_cases(int least) {
    EXPECT_GE(cases_, least);
    RecordProperty("cases", cases_);
    std::printf("%d cases\n", cases_);
  }

  TemporaryFolder root_;
  std::filesystem::path folder_;
  Alone alone_;
  UserState user_;
  End<float> before_;
  std::vector<char> bytes_;
  std::map<std::string, std::string> contents_;
  int cases_ = 0;
};

TEST_F(DamagedCheckpoints, AreRefusedWhereverAFileIsCut) {
  for (const char* file : all_files) {
    std::size_t json_end = content(file).size();
    std::vector<std::size_t> boundaries;
    if (file != manifest_file) {
      const checkpoint::SafetensorsFile shard(folder_ / file);
      json_end = shard.data_begin();
      for (const auto& tensor : shard.tensors()) boundaries.push_back(json_end + tensor.begin);
    }
    for (const std::size_t length : cuts(content(file), json_end, boundaries))
      expect_refusal_of(file, content(file).substr(0, length), "cut to " + std::to_string(length));
    for (const std::size_t more : {1, 8, 512})
      expect_refusal_of(file, content(file) + std::string(more, '\0'), "longer");
  }
  expect_cases(2000);
}

TEST_F(DamagedCheckpoints, AreRefusedWhateverByteOfAHeaderIsFlipped) {
  for (const char* file : shards) {
    const std::size_t end = checkpoint::SafetensorsFile(folder_ / file).data_begin();
    for (std::size_t place = 0; place < end; ++place) {
      std::string changed = content(file);
      changed[place] = static_cast<char>(changed[place] ^ 1 << place % 8);
      expect_refusal_of(file, changed, "byte " + std::to_string(place));
    }
  }
  expect_cases(2000);
}

TEST_F(DamagedCheckpoints, AreRefusedWhateverByteOfTheManifestIsFlipped) {
  for (std::size_t place = 0; place < content(manifest_file).size(); ++place) {
    std::string changed = content(manifest_file);
    changed[place] = static_cast<char>(changed[place] ^ 1);
    expect_refusal_of(manifest_file, changed, "byte " + std::to_string(place));
  }
  expect_cases(2500);
}

TEST_F(DamagedCheckpoints, AreRefusedWithFilesThatWereSwappedOrAreOfAnOlderSave) {
  write(shards[0], content(shards[1]));
  write(shards[1], content(shards[0]));
  expect_refusal(".safetensors", "two files swapped");
  restore();
  // The same sizes, other numbers.
  const auto older = save_first<float>(root_.path() / "older", small, {.ranks = 2});
  for (const char* file : all_files) {
    const std::string stale = content_of(older / file);
    ASSERT_NE(stale, content(file));
    write(file, stale);
    expect_refusal(".safetensors", std::string(file) + " of an older save");
    restore();
  }
  expect_cases(4);
}

TEST_F(DamagedCheckpoints, AreRefusedWithFilesThatAreMissingOrOfAnotherKind) {
  const std::vector<checkpoint::TensorDescription> tensors{{"weight", checkpoint::Dtype::u8, {3}}};
  checkpoint::SafetensorsWriter writer(root_.path() / "foreign", tensors, {{"a", "b"}});
  writer.write(std::vector<std::byte>(3));
  writer.finish();
  for (const char* file : all_files) {
    expect_refusal_of(file, content_of(root_.path() / "foreign"), "of another program");
    expect_refusal_of(file, "", "empty");
    expect_refusal_of(file, "{}", "of JSON");
    expect_refusal_of(file, std::string(content(file).size(), '\0'), "of zeros");
    expect_refusal_of(file, content(file == manifest_file ? shards[0] : manifest_file), "mixed up");
    std::filesystem::remove(folder_ / file);
    expect_refusal(file == manifest_file ? folder_.filename().string() : file, "missing");
    std::filesystem::create_directory(folder_ / file);
    expect_refusal(file, "a folder");
    std::filesystem::remove(folder_ / file);
    ASSERT_EQ(::mkfifo((folder_ / file).c_str(), 0600), 0);
    expect_refusal(file, "a pipe");
    restore();
  }
  expect_cases(24);
}

TEST_F(DamagedCheckpoints, AreRefusedWithAManifestThatLies) {
  for (const Lie& lie : lies_about(content(manifest_file))) {
    write(manifest_file, lie.text);
    expect_refusal(folder_.filename(), lie.what);
  }
  restore();
  expect_cases(1500);
}

}  // namespace
}  // namespace shampoo::test
