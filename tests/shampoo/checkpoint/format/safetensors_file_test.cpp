// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <limits>
#include <system_error>

#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

using namespace std::string_literals;

// What the format's reference implementation in Python writes for zeros((2, 2)) of I32.
const std::string known_file =
    "\x40\0\0\0\0\0\0\0{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}    "
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"s;

const std::string four = "abcd";

class SafetensorsFiles : public testing::Test {
 protected:
  SafetensorsFile open(const std::string& content) {
    return SafetensorsFile(put(folder_.path() / "file.safetensors", content));
  }
  std::string refusal(const std::string& content) {
    return message_of<CheckpointError>([&] { open(content); });
  }
  /// Of a tensor "t" of four bytes, unless its text says otherwise.
  std::string refusal_of(const std::string& header, const std::string& data = four) {
    return refusal(raw(header, data));
  }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsFiles, ReadAKnownFile) {
  const SafetensorsFile file = open(known_file);

  ASSERT_EQ(file.tensors().size(), 1);
  EXPECT_EQ(file.tensors()[0], (TensorEntry{"test", Dtype::i32, {2, 2}, 0, 16}));
  EXPECT_EQ(file.data_begin(), 72U);
  EXPECT_EQ(file.bytes(), known_file.size());
}

TEST_F(SafetensorsFiles, ReadTensorsInTheOrderOfTheirDataWithMetadata) {
  const SafetensorsFile file =
      open(raw(R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]},)"
               R"("__metadata__":{"k":"v","\u00e9":"\n"},)"
               R"("a\u0062":{"shape":[],"data_offsets":[0,1],"dtype":"BOOL"}} )"
               "\n\t\r ",
               four));

  ASSERT_EQ(file.tensors().size(), 2);
  EXPECT_EQ(file.tensors()[0].name, "ab");
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(file.find("b"), 1);
  EXPECT_FALSE(file.find("c"));
  EXPECT_EQ(file.metadata("k"), "v");
  EXPECT_EQ(file.metadata("\u00e9"), "\n");
  EXPECT_FALSE(file.metadata("b"));
  std::array<char, 2> bytes{};
  file.read(file.tensors()[1], 1, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(std::string(bytes.data(), 2), "cd");
  EXPECT_THROW(file.read(file.tensors()[1], 2, std::as_writable_bytes(std::span(bytes))),
               std::invalid_argument);
}

TEST_F(SafetensorsFiles, MayBeEmptyOrHoldTensorsWithoutElements) {
  EXPECT_EQ(open(raw("{}", "")).tensors().size(), 0);
  const SafetensorsFile file =
      open(raw(R"({"a":{"dtype":"F32","shape":[0,9],"data_offsets":[0,0]},)"
               R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
               R"("c":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
               four));
  EXPECT_EQ(file.tensors().size(), 3);
}

TEST_F(SafetensorsFiles, HaveEveryDtypeOfTheFormat) {
  for (const DtypeFacts& facts : dtypes()) {
    const std::string header = R"({"t":{"dtype":")" + std::string(facts.name) +
                               R"(","shape":[4],"data_offsets":[0,)" +
                               std::to_string(facts.bits / 2) + "]}}";
    const SafetensorsFile file =
        open(raw(header, std::string(static_cast<std::size_t>(facts.bits) / 2, 'x')));
    EXPECT_EQ(file.tensors()[0].dtype, facts.dtype) << facts.name;
  }
}

TEST_F(SafetensorsFiles, AreRefusedWhereTheLengthOfTheHeaderIsWrong) {
  EXPECT_NE(refusal(""), "");
  EXPECT_NE(refusal("1234567"), "");
  EXPECT_NE(refusal("\x3c\0\0\0\0\xff\xff\xff"s + std::string(100, ' ')), "");
  EXPECT_NE(refusal("\xff\xff\xff\xff\xff\xff\xff\xff{}"s), "");
  EXPECT_NE(refusal("\x03\0\0\0\0\0\0\0{}"s), "");
  EXPECT_NE(refusal("\0\0\0\0\0\0\0\0"s), "");
  EXPECT_NE(refusal("\x01\xe1\xf5\x05\0\0\0\0{}"s).find("100000001"), std::string::npos);
}

TEST_F(SafetensorsFiles, AreRefusedWhereTheHeaderIsNoJsonObject) {
  for (const std::string& header :
       {""s,
        "{"s,
        "\xff"s,
        "[]"s,
        "1"s,
        "null"s,
        " {}"s,
        "\n{}"s,
        "\xef\xbb\xbf{}"s,
        "{}{}"s,
        "{} x"s,
        "{}\0"s,
        "{}\0garbage"s,
        "{\"\xff\":1}"s,
        R"({"a":})"s,
        "{,}"s,
        "{'a':1}"s,
        "{\"a\xc0\xaf\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"s,
        "{/**/}"s,
        "{"s + std::string(100'000, '['),
        std::string(100'000, '{')})
    EXPECT_NE(refusal_of(header, ""), "") << header.substr(0, 60);
}

TEST_F(SafetensorsFiles, AreRefusedWhereAFieldIsWrong) {
  for (const char* tensor :
       {R"(null)",
        R"(3)",
        R"("text")",
        R"([])",
        R"({})",
        R"(true)",
        R"({"dtype":"U8","shape":[4]})",
        R"({"dtype":"U8","data_offsets":[0,4]})",
        R"({"shape":[4],"data_offsets":[0,4]})",
        R"({"dtype":"u8","shape":[4],"data_offsets":[0,4]})",
        R"({"dtype":"U80","shape":[4],"data_offsets":[0,4]})",
        R"({"dtype":8,"shape":[4],"data_offsets":[0,4]})",
        R"({"dtype":["U8"],"shape":[4],"data_offsets":[0,4]})",
        R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})",
        R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})",
        R"({"dtype":"U8","shape":["4"],"data_offsets":[0,4]})",
        R"({"dtype":"U8","shape":[[4]],"data_offsets":[0,4]})",
        R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})",
        R"({"dtype":"U8","shape":[4],"data_offsets":[0]})",
        R"({"dtype":"U8","shape":[4],"data_offsets":[]})",
        R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,4]})",
        R"({"dtype":"U8","shape":[4],"data_offsets":[-0.0,4]})",
        R"({"dtype":"U8","shape":[4],"data_offsets":[0,4e0]})",
        R"({"dtype":"U8","shape":[4],"data_offsets":{"0":4}})",
        R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1})",
        R"({"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})",
        R"({"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]})",
        R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"data_offsets":[0,4]})"}) {
    const std::string message = refusal_of(R"({"t":)" + std::string(tensor) + "}");
    EXPECT_NE(message.find("file.safetensors: "), std::string::npos) << tensor;
  }
  for (const char* metadata : {R"({"k":1})", R"({"k":null})", R"({"k":{}})", R"([])", R"("k")",
                               R"({"k":["v"]})", R"({"k":"v","k":"w"})", "null"})
    EXPECT_NE(refusal_of(R"({"__metadata__":)" + std::string(metadata) + "}", ""), "") << metadata;
  EXPECT_NE(refusal_of(R"({"__metadata__":{},"__metadata__":{}})", ""), "");
}

TEST_F(SafetensorsFiles, AreRefusedWhereANameOccursTwice) {
  const std::string message =
      refusal_of(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                 R"("\u0074":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})");
  EXPECT_NE(message.find(R"("t" occurs twice)"), std::string::npos) << message;
}

std::string tensor(const std::string& name, std::uint64_t begin, std::uint64_t end) {
  return R"(")" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) +
         R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST_F(SafetensorsFiles, AreRefusedWhereTheDataHaveHolesOrOverlaps) {
  EXPECT_EQ(refusal_of("{" + tensor("a", 0, 2) + "," + tensor("b", 2, 4) + "}"), "");
  EXPECT_NE(refusal_of("{" + tensor("a", 0, 1) + "," + tensor("b", 2, 4) + "}"), "");
  EXPECT_NE(refusal_of("{" + tensor("a", 0, 3) + "," + tensor("b", 2, 4) + "}"), "");
  EXPECT_NE(refusal_of("{" + tensor("a", 0, 4) + "," + tensor("b", 0, 4) + "}"), "");
  EXPECT_NE(refusal_of("{" + tensor("a", 0, 4) + "," + tensor("b", 1, 1) + "}"), "");
  EXPECT_NE(refusal_of("{" + tensor("a", 1, 4) + "}"), "");
  EXPECT_NE(refusal_of("{" + tensor("a", 0, 3) + "}"), "");
  EXPECT_NE(refusal_of("{" + tensor("a", 0, 5) + "}"), "");
  EXPECT_NE(refusal_of("{}"), "");
  EXPECT_NE(refusal_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[4,2]}})"), "");
}

TEST_F(SafetensorsFiles, AreRefusedWhereAShapeOverflowsOrDoesNotFit) {
  for (const std::string& shape :
       {"[2,18446744073709551614]"s, "[2,9223372036854775807]"s, "[9223372036854775807]"s,
        "[4294967296,4294967296]"s, "[4294967296,4294967296,0]"s, "[18446744073709551616]"s,
        "[2305843009213693953,8]"s, "[3]"s, "[5]"s, "[0]"s, "[2,2,2]"s, "[4" + [] {
          std::string ones;
          for (int i = 0; i < 2000; ++i) ones += ",1";
          return ones;
        }() + "]"})
    EXPECT_NE(refusal_of(R"({"t":{"dtype":"U8","data_offsets":[0,4],"shape":)" + shape + "}}"), "")
        << shape.substr(0, 60);
  EXPECT_NE(refusal_of(R"({"t":{"dtype":"F4","data_offsets":[0,4],"shape":[7]}})"), "");
  EXPECT_NE(refusal_of(R"({"t":{"dtype":"F6_E2M3","data_offsets":[0,4],"shape":[5]}})"), "");
}

TEST_F(SafetensorsFiles, AreRefusedWhereverTheyAreCut) {
  for (std::size_t length = 0; length < known_file.size(); ++length)
    EXPECT_NE(refusal(known_file.substr(0, length)), "") << length;
  EXPECT_NE(refusal(known_file + '\0'), "");
}

TEST_F(SafetensorsFiles, AreRefusedOrKnownToBeOtherOnesWhereAByteOfTheHeaderIsFlipped) {
  const std::uint64_t checksum = open(known_file).header_checksum();
  int refused = 0;
  for (std::size_t place = 0; place < 72; ++place)
    for (int mask = 1; mask < 256; ++mask) {
      std::string flipped = known_file;
      flipped[place] = static_cast<char>(flipped[place] ^ mask);
      try {
        EXPECT_NE(open(flipped).header_checksum(), checksum) << place << " " << mask;
      } catch (const CheckpointError&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 72 * 255 * 9 / 10);
}

TEST_F(SafetensorsFiles, FollowLinksAndOpenNothingButFiles) {
  put(folder_.path() / "true", known_file);
  std::filesystem::create_symlink("true", folder_.path() / "link");
  ASSERT_EQ(::mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);

  EXPECT_NO_THROW(SafetensorsFile(folder_.path() / "true"));
  EXPECT_NO_THROW(SafetensorsFile(folder_.path() / "link"));
  EXPECT_THROW(SafetensorsFile(folder_.path() / "pipe"), CheckpointError);
  EXPECT_THROW(SafetensorsFile(folder_.path()), CheckpointError);
  const std::string message =
      message_of<std::system_error>([&] { SafetensorsFile(folder_.path() / "nothing"); });
  EXPECT_NE(message.find("nothing: open: No such file"), std::string::npos) << message;
}

TEST_F(SafetensorsFiles, NameTensorAndFileWhenTheyShrinkUnderTheReader) {
  const SafetensorsFile file = open(known_file);
  std::filesystem::resize_file(file.path(), 80);
  std::array<std::byte, 16> bytes{};

  const std::string message =
      message_of<CheckpointError>([&] { file.read(file.tensors()[0], 0, bytes); });

  EXPECT_NE(message.find("ends at byte 80"), std::string::npos) << message;
}

}  // namespace
}  // namespace shampoo::checkpoint::test
