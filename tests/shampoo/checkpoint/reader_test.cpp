// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/reader.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <system_error>

#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

constexpr std::array<const char*, 3> all_files{"r0.safetensors", "r1.safetensors", "manifest.json"};

class Readers : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = Sample{}.save(root_.path());
    ASSERT_TRUE(Sample{}.equals(folder_));
  }

  /// What reading everything says.
  std::string refusal() {
    return message_of<std::runtime_error>([&] { Reader(folder_).verify(); });
  }

  /// What reading says while a file has other content.
  std::string refusal_with(const char* file, const std::string& content) {
    const std::string before = content_of(folder_ / file);
    put(folder_ / file, content);
    std::string message = refusal();
    put(folder_ / file, before);
    return message;
  }

  TemporaryFolder root_;
  std::filesystem::path folder_;
};

TEST_F(Readers, RefuseEveryFlippedByteAndNameTheFile) {
  for (const char* file : all_files) {
    const std::string whole = content_of(folder_ / file);
    for (std::size_t place = 0; place < whole.size(); ++place) {
      std::string flipped = whole;
      flipped[place] = static_cast<char>(flipped[place] ^ 1 << place % 8);
      const std::string message = refusal_with(file, flipped);
      ASSERT_NE(message.find(file), std::string::npos) << file << " at " << place << message;
    }
  }
}

TEST_F(Readers, NameTensorAndOffsetOfDamagedData) {
  std::string content = content_of(folder_ / "r1.safetensors");
  char& last = content[content.size() - 9];  // checksums of 8 bytes are behind it
  last = static_cast<char>(last + 1);
  const std::string message = refusal_with("r1.safetensors", content);

  EXPECT_NE(message.find("\"optimizer/w/s/3\""), std::string::npos) << message;
  EXPECT_NE(message.find("byte " + std::to_string(content.size() - 32)), std::string::npos)
      << message;
}

TEST_F(Readers, SkipChecksumsOnlyWhenAsked) {
  std::string content = content_of(folder_ / "r1.safetensors");
  char& last = content[content.size() - 9];
  last = static_cast<char>(last + 1);
  put(folder_ / "r1.safetensors", content);
  const Reader reader(folder_);
  const SavedParameter& parameter = reader.manifest().parameters[0];
  const TensorShard shard =
      shard_of(state_tensor(parameter, reader.manifest().slots[0], parameter.grid().box(1)), 1);
  std::array<std::byte, 24> bytes{};

  EXPECT_THROW(reader.read(shard, bytes), CheckpointError);
  EXPECT_NO_THROW(reader.read(shard, bytes, Checksums::skip));
  EXPECT_THROW(reader.read(shard, std::span(bytes).first(23)), std::invalid_argument);
}

TEST_F(Readers, KeepFewerFilesOpenThanAProcessMay) {
  const auto folder = save_files(root_.path() / "many", 700);
  const FewDescriptors few(600);
  EXPECT_NO_THROW(Reader(folder).verify());
}

TEST_F(Readers, FollowLinksToRegularFilesOnly) {
  for (const char* file : all_files) {
    std::filesystem::rename(folder_ / file, root_.path() / "outside");
    std::filesystem::create_symlink(root_.path() / "outside", folder_ / file);
    EXPECT_EQ(refusal(), "") << "as a cache of downloads lays them out";
    EXPECT_TRUE(latest_checkpoint(root_.path()));
    std::filesystem::remove(folder_ / file);
    std::filesystem::create_symlink("/dev/zero", folder_ / file);
    const std::string message = refusal();
    EXPECT_NE(message.find("no regular file"), std::string::npos) << message;
    std::filesystem::remove(folder_ / file);
    std::filesystem::rename(root_.path() / "outside", folder_ / file);
  }
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace shampoo::checkpoint::test
