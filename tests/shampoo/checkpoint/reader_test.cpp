// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/reader.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <functional>
#include <set>
#include <system_error>

#include "shampoo/checkpoint/shard_writer.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
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

TEST_F(Readers, RefuseEveryFileWhereverItIsCut) {
  for (const char* file : all_files) {
    const std::string whole = content_of(folder_ / file);
    std::set<std::size_t> places{7, 8, 9, whole.size() - 1};
    for (std::size_t place = 0; place < whole.size(); place += 512) places.insert(place);
    for (std::size_t place = 0; place < whole.size(); ++place)
      if (std::string_view("{}[],:\"").find(whole[place]) != std::string_view::npos)
        places.insert({place, place + 1});
    places.erase(whole.size());
    for (const std::size_t place : places) {
      const std::string message = refusal_with(file, whole.substr(0, place));
      EXPECT_NE(message.find(file), std::string::npos) << file << " at " << place << message;
    }
    EXPECT_NE(refusal_with(file, whole + '\0'), "");
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(Readers, RefuseEveryFlippedByteAndNameTheFile) {
  for (const char* file : all_files) {
    const std::string whole = content_of(folder_ / file);
    for (std::size_t place = 0; place < whole.size(); ++place)
      for (const int mask : {1, 32, 128, 255}) {
        std::string flipped = whole;
        flipped[place] = static_cast<char>(flipped[place] ^ mask);
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

TEST_F(Readers, RefuseSwappedMissingStaleAndForeignFiles) {
  const std::string one = content_of(folder_ / "r0.safetensors");
  const std::string two = content_of(folder_ / "r1.safetensors");
  EXPECT_NE(refusal_with("r0.safetensors", two), "");
  const auto older = Sample{.step = 0}.save(root_.path());
  for (const char* file : all_files) {
    EXPECT_NE(refusal_with(file, content_of(older / file)), "") << file;
    std::filesystem::rename(folder_ / file, folder_ / "aside");
    EXPECT_NE(refusal(), "") << file;
    std::filesystem::rename(folder_ / "aside", folder_ / file);
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(Readers, KeepFewerFilesOpenThanAProcessMay) {
  constexpr int files = 700;
  const std::filesystem::path folder = root_.path() / "many";
  std::filesystem::create_directory(folder);
  Manifest manifest;
  manifest.save = new_save_id();
  for (std::uint32_t f = 0; f < files; ++f) {
    ShardWriter writer(folder, "r" + std::to_string(f), {{"user/t" + std::to_string(f), Dtype::u8}},
                       manifest.save, 0);
    writer.write(std::vector<std::byte>(1, static_cast<std::byte>(f)));
    manifest.files.push_back(writer.finish());
    manifest.user_tensors.push_back({"t" + std::to_string(f), Dtype::u8, {}, f});
  }
  put(folder / manifest_name, to_json(manifest));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{600, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);

  EXPECT_NO_THROW(Reader(folder).verify());

  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
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
