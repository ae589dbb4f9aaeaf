// SPDX-License-Identifier: Apache-2.0
#include "tests/support/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>

namespace shampoo::test {
namespace {

/// A file with this header and `numbers` numbers 0, 1, 2, ...
std::filesystem::path written(const std::string& header, int numbers) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path path = std::string("safetensors_") + test->name();
  std::ofstream file(path, std::ios::binary);
  const std::uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header;
  for (int i = 0; i < numbers; ++i) {
    const double number = i;
    file.write(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return path;
}

void expect_refused(const std::string& header, int numbers) {
  EXPECT_THROW(read_safetensors(written(header, numbers)), std::invalid_argument) << header;
}

TEST(SafeTensors, GiveShapesNumbersAndMetadata) {
  const SafeTensors read =
      read_safetensors(written(R"({"__metadata__":{"k":"v"},)"
                               R"("b":{"dtype":"F64","shape":[],"data_offsets":[16,24]},)"
                               R"("a":{"dtype":"F64","shape":[2,1],"data_offsets":[0,16]},)"
                               R"("none":{"dtype":"F64","shape":[0,3],"data_offsets":[24,24]}})",
                               3));

  EXPECT_EQ(read.metadata.at("k"), "v");
  EXPECT_EQ(read.tensors.at("a").shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(read.tensors.at("a").elements, (std::vector<double>{0, 1}));
  EXPECT_EQ(read.tensors.at("b").elements, std::vector<double>{2});
  EXPECT_TRUE(read.tensors.at("none").elements.empty());
}

TEST(SafeTensors, RefuseWhatDoesNotFit) {
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 1);   // type
  expect_refused(R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}})", 1);   // size
  expect_refused(R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})", 1);  // cut off
  expect_refused(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 2);   // left over
  expect_refused(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[8,16]}})", 2);  // gap
  expect_refused(R"({"a":{"dtype":"F64","shape":[-1],"data_offsets":[0,8]}})", 1);
  expect_refused(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8],"x":1}})", 1);
  expect_refused(R"(["a"])", 0);
  expect_refused(R"({"a":)", 0);
}

TEST(SafeTensors, NameTheFileThatIsMissing) {
  try {
    read_safetensors("no_such_file");
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("no_such_file"), std::string::npos);
  }
}

}  // namespace
}  // namespace shampoo::test
