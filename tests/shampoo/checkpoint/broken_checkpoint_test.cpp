// SPDX-License-Identifier: Apache-2.0
// What load() says of checkpoints that were changed, on all ranks.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/reader.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using Json = nlohmann::ordered_json;

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
      UserState user = user_state_of(job);
      const End<float> before = end_of(job);
      messages[static_cast<std::size_t>(communicator.rank())] =
          error_of<Error>([&] { load(*job.optimizer, folder_, user, options); });
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

  /// The manifest's JSON, without its checksum.
  Json manifest_json() const {
    std::ifstream file(folder_ / checkpoint::manifest_name);
    Json json = Json::parse(file);
    json.erase("checksum");
    return json;
  }
  void write_json(const Json& json) {
    std::string body = json.dump();
    body.pop_back();
    const auto path = folder_ / checkpoint::manifest_name;
    std::filesystem::remove(path);
    std::ofstream(path) << body << checkpoint::checksum_member(body);
  }

  TemporaryFolder root_;
  std::filesystem::path folder_;
};

TEST_F(BrokenCheckpoints, AreFoundByTheChecksumOfAnyTensorThatIsNeeded) {
  for (int rank = 0; rank < 3; ++rank) {
    const checkpoint::SafetensorsFile file(shard(rank));
    ASSERT_FALSE(file.tensors().empty());
    for (const auto& tensor : {file.tensors().front(), file.tensors().back()}) {
      const std::uint64_t at = file.data_begin() + tensor.begin;
      flip(shard(rank), at);
      expect_says(refusal(), {shard(rank).filename(), tensor.name,
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
  expect_says(refusal(), {shard(0).filename(), "No such file"});
  std::filesystem::create_symlink("nowhere", shard(0));
  expect_says(refusal(), {shard(0).filename(), "No such file"});
  std::filesystem::rename(folder_ / "away", shard(0));
  flip(folder_ / checkpoint::manifest_name, 100);
  expect_says(refusal(), {"manifest.json", "checksum"});
}

TEST_F(BrokenCheckpoints, AreFoundByFieldsThatNobodyWrites) {
  const Json good = manifest_json();
  const auto refused = [&](const std::string& place, const Json& value, const std::string& said) {
    Json bad = good;
    bad[Json::json_pointer(place)] = value;
    write_json(bad);
    expect_says(refusal(), {"manifest", said});
  };
  refused("/progress/attempts", -1, "progress.attempts");
  refused("/rates/0/beta1", "0.1", "beta1");
  refused("/parameters/0/block_size", 1, "blocks");
  refused("/parameters/0/files/0", 9, "file 9 of 3");
  refused("/parameters/0/failures", "x", "failures");
  refused("/format", 2, "format \"2\", not 1; it was written by version");
  refused("/required_features", {"nonsense"}, "nonsense");
  Json bad = good;
  bad["parameters"][0].erase("steps");
  write_json(bad);
  expect_says(refusal(), {"steps", "is missing"});
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
  Json json = manifest_json();
  json["progress"]["taken"] = 8;
  write_json(json);
  expect_says(refusal(), {"progress", "8 steps taken of 7"});
}

TEST_F(BrokenCheckpoints, AreFoundBySlotsThatTheFilesDoNotHave) {
  const auto good = checkpoint::read_manifest(folder_ / checkpoint::manifest_name);
  const std::string file = good.files.at(good.parameters.at(0).files.at(0)).name;
  const std::size_t last = good.parameters.at(0).slots.back();
  for (const char* name : {"root/2", "roots", "root"}) {
    rewrite([&](checkpoint::Manifest& manifest) { manifest.slots[last].name = name; });
    expect_says(refusal(), {file, std::string("optimizer/tensor0/") + name, "is missing"});
    rewrite([&](checkpoint::Manifest& manifest) { manifest = good; });
  }
  rewrite([&](checkpoint::Manifest& manifest) { manifest.parameters[0].slots.pop_back(); });
  expect_says(refusal(), {"optimizer/tensor0/" + good.slots[last].name, "is not in the manifest"});
  rewrite([&](checkpoint::Manifest& manifest) {
    manifest = good;
    manifest.user_tensors.pop_back();
  });
  expect_says(refusal(), {"user/tensor2", "is not in the manifest"});
  rewrite([&](checkpoint::Manifest& manifest) { manifest = good; });
  Alone alone;
  UserState user = user_state_of(alone.job);
  EXPECT_TRUE(load(*alone.job.optimizer, folder_, user).state.recomputed.empty());
}

TEST(TheManifestOfAJob, HasWhatItsStateDictSays) {
  const TemporaryFolder root;
  const Trainee trainee = everything();
  const StateDict full = train_first<float>(trainee, {.ranks = 2}).state;
  const auto folder = save_first<float>(root.path(), trainee, {.ranks = 2});
  const auto manifest = checkpoint::read_manifest(folder / checkpoint::manifest_name);
  EXPECT_EQ(manifest.progress, full.progress);
  ASSERT_EQ(manifest.parameters.size(), full.parameters.size());
  std::size_t tensors = 0;
  for (std::size_t p = 0; p < full.parameters.size(); ++p) {
    const checkpoint::SavedParameter& saved = manifest.parameters[p];
    ParameterState state = full.parameters[p];
    ASSERT_EQ(saved.files.size(), state.blocks.size());
    for (std::size_t b = 0; b < saved.files.size(); ++b) {
      EXPECT_EQ(saved.block_state(static_cast<std::int64_t>(b)), state.blocks[b]);
      for (const std::uint32_t slot : saved.slots) {
        const StateTensor tensor = state_tensor(saved, manifest.slots[slot], state.blocks[b].box);
        ++tensors;
        if (tensor.layout != StateLayout::elements) {
          EXPECT_NE(full.find(tensor.name()), nullptr) << tensor.name();
        }
      }
    }
    std::ranges::sort(state.recipe, {}, &RecipeField::name);
    EXPECT_EQ(saved.name, state.name);
    EXPECT_EQ(saved.shape, state.shape);
    EXPECT_EQ(saved.merged_shape, state.merged_shape);
    EXPECT_EQ(saved.steps, state.steps);
    EXPECT_EQ(saved.averaging_weight_sum, state.averaging_weight_sum);
    EXPECT_EQ(manifest.recipes.at(saved.recipe), state.recipe);
    EXPECT_EQ(manifest.rates.at(saved.rates), state.rates);
  }
  EXPECT_GE(tensors, full.tensors.size());
}

}  // namespace
}  // namespace shampoo::test
