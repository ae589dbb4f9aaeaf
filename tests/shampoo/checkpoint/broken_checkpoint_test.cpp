// SPDX-License-Identifier: Apache-2.0
// What load() says of checkpoints that were changed, on all ranks.
#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/state_values.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using Values = std::map<std::string, std::string>;

class BrokenCheckpoints : public testing::Test {
 protected:
  void SetUp() override { folder_ = save_first<float>(root_.path(), small, {.ranks = 3}); }

  std::filesystem::path shard(int rank) const {
    return folder_ / ("shard-0000" + std::to_string(rank) + "-of-00003.safetensors");
  }

  /// What all ranks throw; nothing has changed, and training goes on.
  template <typename Error = CheckpointError>
  std::string refusal(const CheckpointOptions& options = {}) {
    std::array<std::string, 2> messages;
    run_ranks(2, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      Extras extras = extras_of(job);
      const End<float> before = end_of(job);
      messages[static_cast<std::size_t>(communicator.rank())] =
          error_of<Error>([&] { load(*job.optimizer, folder_, extras, options); });
      EXPECT_EQ(end_of(job), before);
      job.train(0, 1);
    });
    EXPECT_FALSE(messages[0].empty());
    EXPECT_EQ(messages[0], messages[1]);
    return messages[0];
  }

  void flip(const std::filesystem::path& path, std::uint64_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  /// Another manifest, with a checksum that is right.
  template <typename Change>
  void rewrite(const Change& change) {
    const auto path = folder_ / checkpoint::manifest_name;
    checkpoint::Manifest manifest = checkpoint::read_manifest(path);
    change(manifest);
    std::filesystem::remove(path);
    std::ofstream(path) << checkpoint::to_json(manifest);
  }

  TemporaryFolder root_;
  std::filesystem::path folder_;
};

TEST_F(BrokenCheckpoints, AreFoundByTheChecksumOfAnyTensorThatIsNeeded) {
  for (int rank = 0; rank < 3; ++rank) {
    const checkpoint::SafetensorsFile file(shard(rank));
    ASSERT_GT(file.size(), 0);
    for (const int tensor : {0, file.size() - 1}) {
      const std::uint64_t at = file.data_begin() + file[tensor].begin;
      flip(shard(rank), at);
      expect_says(refusal(), {shard(rank).filename(), file[tensor].name,
                              "from byte " + std::to_string(at), "checksum"});
      flip(shard(rank), at);
    }
  }
  const checkpoint::SafetensorsFile file(shard(1));
  flip(shard(1), file.data_begin());
  Alone alone;
  load(*alone.job.optimizer, folder_, {.checksums = false});
  EXPECT_EQ(alone.job.optimizer->steps("tensor0"), steps_before);
}

TEST_F(BrokenCheckpoints, AreFoundByTheirFiles) {
  const auto size = std::filesystem::file_size(shard(2));
  std::filesystem::resize_file(shard(2), size - 1);
  expect_says(refusal(), {shard(2).filename(), std::to_string(size - 1) + " bytes"});
  std::filesystem::resize_file(shard(2), size);
  flip(shard(0), 20);
  expect_says(refusal(), {shard(0).filename()});
  flip(shard(0), 20);
  std::filesystem::rename(shard(0), folder_ / "away");
  expect_says(refusal<std::system_error>(), {shard(0).filename(), "No such file"});
  std::filesystem::create_symlink("away", shard(0));
  expect_says(refusal(), {shard(0).filename(), "symbolic link"});
  std::filesystem::rename(folder_ / "away", shard(0));
  flip(folder_ / checkpoint::manifest_name, 100);
  expect_says(refusal(), {"manifest.json", "checksum"});
}

TEST_F(BrokenCheckpoints, AreFoundByValuesThatNobodyWrites) {
  checkpoint::Manifest good = checkpoint::read_manifest(folder_ / checkpoint::manifest_name);
  const auto refused = [&](const std::string& key, const char* value) {
    rewrite([&](checkpoint::Manifest& manifest) {
      manifest.values = good.values;
      if (value)
        manifest.values[key] = value;
      else
        ASSERT_EQ(manifest.values.erase(key), 1U) << key;
    });
    expect_says(refusal(), {key});
  };
  for (const char* key : {"format", "derived", "progress.taken", "steps/tensor0", "slots/tensor1",
                          "blocks/tensor2", "merged_shape/tensor0", "rates.epsilon/tensor0"})
    refused(key, nullptr);
  for (const char* value : {"", "-1", "1.0", " 1", "99999999999999999999", "1,000"})
    refused("progress.attempts", value);
  for (const char* value : {"", "x", "0,1", "0.1 "}) refused("rates.beta1/tensor0", value);
  for (const char* value : {"0.0", "0.0:9.9:0:0", "0.0:8:0:0", "0.0:-1.8:0:0", "0.0:8.8:x:0"})
    refused("blocks/tensor0", value);
  for (const char* value : {"factor/0", "a:b:0", ":elements:0", "a:elements:"})
    refused("slots/tensor0", value);
  for (const char* value : {"", "no", "false"}) refused("derived", value);
  refused("format", "2");
  refused("nonsense", "");
  refused("nonsense/tensor0", "");
  refused("recipe.nonsense/tensor0", "");
}

TEST_F(BrokenCheckpoints, AreFoundByAStepThatIsNotTheirs) {
  rewrite([](checkpoint::Manifest& manifest) { manifest.step = 8; });
  expect_says(refusal(), {"step-7", "step 8, not 7"});
  const auto renamed = [&](const char* name) {
    std::filesystem::rename(folder_, root_.path() / name);
    folder_ = root_.path() / name;
  };
  renamed("best");
  expect_says(refusal(), {shard(0).filename(), "is of step \"7\"", "the manifest of step 8"});
  rewrite([](checkpoint::Manifest& manifest) { manifest.step = 7; });
  renamed("step-8");
  expect_says(refusal(), {"step-8", "step 7, not 8"});
  folder_ /= "";
  expect_says(refusal(), {"step-8", "step 7, not 8"});
  folder_ = folder_.parent_path();
  renamed("best");
  Alone alone;
  EXPECT_EQ(load(*alone.job.optimizer, folder_).step, 7);
  rewrite([](checkpoint::Manifest& manifest) { manifest.values["progress.taken"] = "8"; });
  expect_says(refusal(), {"progress.taken", "8 steps taken of 7"});
}

TEST_F(BrokenCheckpoints, AreFoundByRootsThatAreNotThoseOfTheFactors) {
  const auto good = checkpoint::read_manifest(folder_ / checkpoint::manifest_name);
  const auto root = std::ranges::find_if(good.tensors, [](const checkpoint::SavedTensor& tensor) {
    return tensor.name.starts_with("optimizer/tensor0/root/0/");
  });
  ASSERT_NE(root, good.tensors.end());
  for (const char* name : {"optimizer/tensor0/root/2/0.0", "optimizer/tensor0/roots",
                           "optimizer/tensor9/root/0/0.0", "root"}) {
    rewrite([&](checkpoint::Manifest& manifest) {
      manifest.tensors[static_cast<std::size_t>(root - good.tensors.begin())].name = name;
    });
    expect_says(refusal(), {root->pieces.front().file, std::string("\"") + name + "\""});
  }
  rewrite([&](checkpoint::Manifest& manifest) {
    manifest = good;
    std::string& slots = manifest.values.at("slots/tensor0");
    slots.erase(slots.find(" root/0:symmetric:0"), 19);
  });
  expect_says(refusal(), {"slots/tensor0", "2 factors and 1 roots", "derived"});
  rewrite([&](checkpoint::Manifest& manifest) { manifest.values = good.values; });
  Alone alone;
  Extras extras = extras_of(alone.job);
  EXPECT_TRUE(load(*alone.job.optimizer, folder_, extras).state.recomputed.empty());
}

TEST(TheValuesOfAState, AreReadAsTheyWereWritten) {
  const Trainee trainee = everything();
  const StateDict full = train_first<float>(trainee, {.ranks = 2}).state;
  const checkpoint::SavedState state = checkpoint::describe_state(full, true);
  Values values;
  checkpoint::add_values(state, values);
  EXPECT_EQ(values.at("slots/tensor4"),
            "factor/0:symmetric:0 factor/1:symmetric:1 filtered_gradient:elements:0 "
            "grafting:elements:0 master:elements:0 momentum:elements:0 root/0:symmetric:0 "
            "root/1:symmetric:1");
  values["extra/x"] = "of no concern";
  const checkpoint::SavedState read = checkpoint::state_from(values);
  EXPECT_EQ(read.dict.parameters, full.parameters);
  EXPECT_EQ(read.dict.progress, full.progress);
  EXPECT_EQ(read.parameters, state.parameters);
}

}  // namespace
}  // namespace shampoo::test
