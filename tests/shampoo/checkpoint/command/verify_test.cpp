// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/command/asked.h"
#include "tests/shampoo/checkpoint/command/named_checkpoint.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::command::test {
namespace {

using checkpoint::test::content_of;
using checkpoint::test::FewDescriptors;
using checkpoint::test::put;
using checkpoint::test::Sample;
using checkpoint::test::save_files;
using checkpoint::test::TemporaryFolder;

class Verifies : public testing::Test {
 protected:
  void SetUp() override {
    for (std::int64_t step = 1; step <= 3; ++step) Sample{.step = step}.save(root());
  }

  const std::filesystem::path& root() const { return root_.path(); }
  std::filesystem::path folder(std::int64_t step) const { return root() / folder_name(step); }
  static void flip_last_number(const std::filesystem::path& file) {
    std::string content = content_of(file);
    const SafetensorsFile tensors(file);
    content[tensors.data_begin() + tensors.tensors().back().begin - 1] ^= 1;
    put(file, content);
  }
  static Answer verify(const std::filesystem::path& path) { return ask({"verify", path}); }
  /// Of the one checkpoint at the path.
  static std::vector<std::string> faults(const std::filesystem::path& path) {
    return ask({"verify", path, "--json"}).json().at("checkpoints").at(0).at("faults");
  }

 private:
  TemporaryFolder root_;
};

TEST_F(Verifies, SoundCheckpointsOneByOneAndTogether) {
  const Answer all = verify(root());

  EXPECT_EQ(all.status, 0) << all.text;
  EXPECT_TRUE(all.has("step-3: sound; 3 tensors, 2 files, checksums of 56 B right")) << all.text;
  EXPECT_EQ(verify(folder(2)).status, 0);
  EXPECT_EQ(verify(folder(2) / "").status, 0);
}

TEST_F(Verifies, WithFileTensorAndOffsetAndGoesOn) {
  flip_last_number(folder(1) / "r0.safetensors");
  flip_last_number(folder(1) / "r1.safetensors");
  std::filesystem::remove(folder(2) / "r0.safetensors");

  const auto first = faults(folder(1));
  ASSERT_EQ(first.size(), 2);
  EXPECT_NE(first[0].find("r0.safetensors: tensor \"user/count\""), std::string::npos) << first[0];
  EXPECT_NE(first[1].find("r1.safetensors: tensor \"optimizer/w/s/3\""), std::string::npos)
      << first[1];
  EXPECT_NE(first[1].find(" from byte "), std::string::npos) << first[1];
  const auto second = faults(folder(2));
  ASSERT_EQ(second.size(), 1);
  EXPECT_NE(second[0].find("No such file"), std::string::npos) << second[0];
  const Answer all = verify(root());
  EXPECT_EQ(all.status, 1);
  EXPECT_TRUE(all.has("step-1: BROKEN, 2 faults")) << all.text;
  EXPECT_TRUE(all.has("step-2: BROKEN, 1 fault;")) << all.text;
  EXPECT_TRUE(all.has("step-3: sound")) << all.text;
}

TEST_F(Verifies, TheRestOfAFileThatWasCut) {
  const std::string content = content_of(folder(1) / "r1.safetensors");
  for (std::size_t size = 0; size < content.size(); size += 17) {
    put(folder(1) / "r1.safetensors", content.substr(0, size));
    EXPECT_EQ(faults(folder(1)).size(), 1) << size;
  }
}

TEST_F(Verifies, ThatThereIsAManifest) {
  std::filesystem::remove(folder(1) / "manifest.json");
  ASSERT_EQ(faults(folder(1)).size(), 1);
  EXPECT_NE(faults(folder(1))[0].find("manifest.json"), std::string::npos);
}

TEST_F(Verifies, MoreFilesThanAProcessMayHaveOpen) {
  const auto folder = save_files(root() / "many", 700);
  const FewDescriptors few(600);
  EXPECT_EQ(verify(folder).status, 0);
  EXPECT_EQ(ask({"describe", folder, "--json"}).json().at("tensors").size(), 700);
}

TEST_F(Verifies, LinksToRegularFilesOnly) {
  std::filesystem::rename(folder(1) / "r0.safetensors", root() / "elsewhere");
  std::filesystem::create_symlink(root() / "elsewhere", folder(1) / "r0.safetensors");
  EXPECT_EQ(verify(folder(1)).status, 0);

  std::filesystem::remove(folder(2) / "manifest.json");
  std::filesystem::create_symlink("/dev/zero", folder(2) / "manifest.json");
  ASSERT_EQ(faults(folder(2)).size(), 1);
  EXPECT_NE(faults(folder(2))[0].find("no regular file"), std::string::npos);
}

TEST_F(Verifies, ThatAStepHasItsOwnNameUnlessItWasGivenAnother) {
  std::filesystem::rename(folder(3), root() / "step-4");
  EXPECT_EQ(faults(root() / "step-4").size(), 1);
  std::filesystem::rename(root() / "step-4", root() / "best");
  EXPECT_EQ(verify(root() / "best").status, 0);
}

TEST_F(Verifies, ThatTheFilesAreOfTheStepOfTheManifest) {
  std::filesystem::rename(folder(2), root() / "best");
  const std::filesystem::path path = root() / "best" / manifest_name;
  Manifest manifest = read_manifest(path);
  manifest.step = 5;
  put(path, to_json(manifest));

  const auto found = faults(root() / "best");

  ASSERT_EQ(found.size(), 2) << "of both files";
  EXPECT_NE(found[0].find("r0.safetensors: is of step \"2\", the manifest of step 5"),
            std::string::npos)
      << found[0];
}

TEST_F(Verifies, AndShowsWhatDoesNotBelong) {
  put(folder(1) / "notes\n.txt", "");
  const Answer answer = verify(folder(1));

  EXPECT_EQ(answer.status, 0);
  EXPECT_TRUE(answer.has("(not in the manifest: notes?.txt)")) << answer.text;
}

TEST_F(Verifies, NothingAsAFault) {
  const TemporaryFolder empty;
  EXPECT_EQ(verify(empty.path()).status, 1);
  EXPECT_TRUE(verify(empty.path()).has("no checkpoint"));
  EXPECT_THROW(verify(empty.path() / "none"), CheckpointError);
  EXPECT_THROW(verify(put(empty.path() / "file", "")), CheckpointError);
}

TEST_F(Verifies, ThatTheManifestListsEveryTensor) {
  const std::filesystem::path path = folder(1) / manifest_name;
  Manifest manifest = read_manifest(path);
  manifest.user_tensors.clear();
  put(path, to_json(manifest));

  const auto found = faults(folder(1));

  ASSERT_EQ(found.size(), 1);
  EXPECT_NE(found[0].find("r0.safetensors: tensor \"user/count\" is not in the manifest"),
            std::string::npos)
      << found[0];
}

TEST_F(Verifies, CheckpointsWithoutTensors) {
  const TemporaryFolder other;
  EXPECT_EQ(verify(save_named(other.path(), 0, {})).status, 0);
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
