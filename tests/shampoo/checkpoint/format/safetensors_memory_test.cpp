// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/format/little_memory.h"
#include "tests/shampoo/checkpoint/sample.h"
#include "tests/support/allocations.h"

namespace shampoo::checkpoint::test {
namespace {

std::string many(int count, const std::function<std::string(int)>& entry) {
  std::string header = "{";
  for (int i = 0; i < count; ++i) header += (i > 0 ? "," : "") + entry(i);
  return header + "}";
}

std::string repeated(std::size_t count, char letter) { return std::string(count, letter); }

class SafetensorsMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!shampoo::test::AllocationCounter::sees_everything())
      GTEST_SKIP() << "a sanitizer reserves address space";
  }
  Outcome open(const std::string& header, std::uint64_t times) {
    const auto path = put(folder_.path() / "file", raw(header, ""));
    return with_little_memory(times * std::filesystem::file_size(path),
                              [&] { const SafetensorsFile file(path); });
  }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsMemory, IsEightTimesThatOfTheHeaderForManyTensors) {
  EXPECT_EQ(open(many(200'000,
                      [](int i) {
                        return "\"" + std::to_string(i) +
                               "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
                      }),
                 8),
            accepted);
}

TEST_F(SafetensorsMemory, IsSixteenTimesThatOfTheHeaderForManyKeysOfMetadata) {
  EXPECT_EQ(
      open("{\"__metadata__\":" +
               many(200'000, [](int i) { return "\"" + std::to_string(i) + "\":\"\""; }) + "}",
           16),
      accepted);
}

TEST_F(SafetensorsMemory, IsAFewTimesThatOfTheHeaderForOneLongString) {
  EXPECT_EQ(open("{\"__metadata__\":{\"" + repeated(10'000'000, 'x') + "\":\"\"}}", 16), accepted);
}

TEST_F(SafetensorsMemory, IsAFewTimesThatOfTheHeaderForLongNumbersAndShapes) {
  EXPECT_EQ(open("{\"t\":{\"shape\":[" + repeated(10'000'000, '1') + "]}}", 16), refused);
  std::string sides = "0";
  for (int i = 0; i < 2'000'000; ++i) sides += ",0";
  EXPECT_EQ(open("{\"t\":{\"shape\":[" + sides + "]}}", 2), refused);
  EXPECT_EQ(open("{\"t\":" + repeated(10'000'000, '['), 2), refused);
}

TEST(SafetensorsFileOfManyTensors, FindsEachByItsName) {
  TemporaryFolder folder;
  const std::string header = many(100'000, [](int i) {
    return "\"layer." + std::to_string(i) +
           ".weight\":{\"dtype\":\"U8\",\"shape\":[1,1],"
           "\"data_offsets\":[" +
           std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  });
  const SafetensorsFile file(put(folder.path() / "file", raw(header, std::string(100'000, 'x'))));

  ASSERT_EQ(file.tensors().size(), 100'000);
  for (std::size_t i = 0; i < file.tensors().size(); ++i)
    ASSERT_EQ(file.find("layer." + std::to_string(i) + ".weight"), i);
}

}  // namespace
}  // namespace shampoo::checkpoint::test
