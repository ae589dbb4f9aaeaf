// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <stdexcept>
#include <system_error>

#include "grouping/hash.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

std::vector<std::byte> numbered(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37);
  return bytes;
}

class SafetensorsWriters : public testing::Test {
 protected:
  std::string refusal(const std::vector<TensorDescription>& tensors,
                      const std::map<std::string, std::string>& metadata = {}) {
    return message_of<std::invalid_argument>([&] { SafetensorsWriter(path_, tensors, metadata); });
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "file.safetensors";
};

const std::vector<TensorDescription> awkward{{"empty", Dtype::f64, {3, 0}},
                                             {"a \"b\"\n\u00e9", Dtype::f64, {1, 3}},
                                             {"scalar", Dtype::f32},
                                             {"", Dtype::u8, {5}},
                                             {"last", Dtype::bf16, {0}}};

TEST_F(SafetensorsWriters, WriteWhatTheReaderReadsHoweverTheBytesAreCut) {
  const std::vector<std::byte> data = numbered(24 + 4 + 5);
  for (const std::size_t at_once : {1U, 7U, 24U, 33U}) {
    std::filesystem::remove(path_);
    SafetensorsWriter writer(path_, awkward, {{"k", "v"}, {"\u00e9", "\t"}});
    for (std::size_t begin = 0; begin < data.size(); begin += at_once)
      writer.write(std::span(data).subspan(begin, std::min(at_once, data.size() - begin)));
    const WrittenFile written = writer.finish();

    const SafetensorsFile file(path_);
    EXPECT_EQ(file.bytes(), written.bytes);
    EXPECT_EQ(file.header_checksum(), written.header_checksum);
    EXPECT_EQ(file.data_begin() % 8, 0U);
    EXPECT_EQ(file.metadata("\u00e9"), "\t");
    ASSERT_EQ(written.checksums.size(), awkward.size());
    for (std::size_t i = 0; i < awkward.size(); ++i) {
      const auto index = file.find(awkward[i].name);
      ASSERT_TRUE(index) << i;
      const TensorEntry& entry = file.tensors()[*index];
      EXPECT_EQ(entry.dtype, awkward[i].dtype);
      EXPECT_EQ(entry.shape, awkward[i].shape);
      std::vector<std::byte> bytes(entry.end - entry.begin);
      file.read(entry, 0, bytes);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), data.begin() + entry.begin));
      EXPECT_EQ(grouping::hash(bytes), written.checksums[i]);
    }
  }
}

TEST_F(SafetensorsWriters, WriteTheBytesOfAKnownFile) {
  const std::vector<TensorDescription> one{{"test", Dtype::i32, {2, 2}}};
  SafetensorsWriter writer(path_, one);
  writer.write(std::vector<std::byte>(16));
  writer.finish();

  EXPECT_EQ(content_of(path_),
            raw(R"({"test":{"data_offsets":[0,16],"dtype":"I32","shape":[2,2]}}    )",
                std::string(16, '\0')));
}

TEST_F(SafetensorsWriters, RefuseWhatNoFileCanHoldBeforeThereIsOne) {
  EXPECT_NE(refusal({{"a"}, {"a"}}), "");
  EXPECT_NE(refusal({{"__metadata__"}}), "");
  EXPECT_NE(refusal({{"a\xff"}}), "");
  EXPECT_NE(refusal({{"a"}}, {{"k", "\xff"}}), "");
  EXPECT_NE(refusal({{"a", Dtype::f32, {-1}}}), "");
  EXPECT_NE(refusal({{"a", Dtype::f4, {3}}}), "");
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(refusal({{"a", Dtype::u8, {huge}}, {"b", Dtype::u8, {huge, 2}}}), "");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SafetensorsWriters, RefuseTooManyAndTooFewBytes) {
  const std::vector<TensorDescription> one{{"a", Dtype::u8, {5}}};
  SafetensorsWriter writer(path_, one);
  EXPECT_THROW(writer.write(numbered(6)), std::invalid_argument);
  writer.write(numbered(4));
  EXPECT_THROW(writer.finish(), std::invalid_argument);
  writer.write(numbered(1));
  EXPECT_EQ(writer.finish().bytes, SafetensorsFile(path_).bytes());
}

TEST_F(SafetensorsWriters, NeverOverwrite) {
  put(path_, "precious");
  const std::string message = message_of<std::system_error>(
      [&] { SafetensorsWriter(path_, std::vector<TensorDescription>{{"a"}}); });

  EXPECT_NE(message.find("file.safetensors: create: File exists"), std::string::npos) << message;
  EXPECT_EQ(content_of(path_), "precious");
}

}  // namespace
}  // namespace shampoo::checkpoint::test
