// SPDX-License-Identifier: Apache-2.0
// What reading a manifest takes of memory, in proportion to its text.
#include <gtest/gtest.h>

#include <chrono>

#include "shampoo/checkpoint/format/manifest.h"
#include "tests/shampoo/checkpoint/format/little_memory.h"
#include "tests/support/allocations.h"

namespace shampoo::checkpoint::test {
namespace {

class ManifestMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!shampoo::test::AllocationCounter::sees_everything())
      GTEST_SKIP() << "a sanitizer reserves address space";
  }

  /// 1 MiB of one text, between others.
  static std::string repeated(const std::string& begin, const std::string& part,
                              const std::string& end) {
    std::string text = begin;
    while (text.size() < std::size_t{1} << 20) text += part + ",";
    text.pop_back();
    return text + end;
  }

  /// What reading a manifest with this member comes to in `times` the size of its text.
  static Outcome read(const std::string& member, std::uint64_t times) {
    const std::string body =
        R"({"format":1,"library":"0","save":"s","arithmetic":"","ranks":1,"step":0,)"
        R"("plan_hash":"0000000000000000","user_values":{},"rank_values":[],"user_tensors":[],)"
        R"("files":[],"slots":[],"recipes":[{}],"rates":[{}],"parameters":[],)" +
        member + R"("progress":{"attempts":0,"taken":0,"skipped_in_a_row":0})";
    const std::string text = body + checksum_member(body);
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome =
        with_little_memory(times * text.size(), [&] { manifest_from_json(text); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    return outcome;
  }
};

TEST_F(ManifestMemory, IsNoneForFieldsThatAreUnknown) {
  EXPECT_EQ(read(repeated("\"more\":[", "[],{},[[0]]", "],"), 1), accepted);
  EXPECT_EQ(read(repeated("\"more\":[{\"a\":[", "{\"x\":1.5}", "]}],"), 1), accepted);
  EXPECT_EQ(read("\"more\":" + std::string(4 << 20, '[') + std::string(4 << 20, ']') + ",", 4),
            accepted);
}

TEST_F(ManifestMemory, OfRowsIsThatOfOneAtATime) {
  const auto with = [](const std::string& list, const std::string& begin, const std::string& part,
                       const std::string& end) {
    std::string body =
        R"({"format":1,"library":"0","save":"s","arithmetic":"","ranks":1,"step":0,)"
        R"("plan_hash":"0000000000000000","progress":{"attempts":0,"taken":0,"skipped_in_a_row":0},)";
    for (const char* name : {"user_values", "rank_values", "user_tensors", "files", "slots",
                             "recipes", "rates", "parameters"}) {
      body += std::string("\"") + name + "\":";
      if (name == list)
        body += repeated(begin, part, end);
      else
        body += name == std::string("user_values") ? "{}," : "[],";
    }
    body.pop_back();
    const std::string text = body + checksum_member(body);
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = with_little_memory(8 * text.size(), [&] { manifest_from_json(text); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << part;
    return outcome;
  };
  const std::string scalar =
      R"({"name":"w","shape":[],"merged_shape":[],"block_size":1,"steps":0,)"
      R"("averaging_weight_sum":0,"recipe":0,"rates":0,"slots":[],"files":[0]})";
  for (const char* list : {"rank_values", "user_tensors", "recipes", "parameters"})
    for (const char* part : {"[]", "{}"}) {
      EXPECT_EQ(with(list, "[", part, "]"), refused) << list << " of " << part;
      EXPECT_EQ(with(list, "[[", part, "]]"), refused) << list << " of one of " << part;
      EXPECT_EQ(with(list, "[{\"name\":[", part, "]}]"), refused) << list << " of " << part;
    }
  EXPECT_EQ(with("parameters", "[", scalar, "]"), refused) << "the same name";
  EXPECT_EQ(with("parameters", "[" + scalar.substr(0, scalar.size() - 2), "0", "]}]"), refused);
  EXPECT_EQ(with("recipes", "[{", "\"a\":\"\"", "}]"), refused);
  EXPECT_EQ(with("user_values", "{", "\"a\":{\"float\":\"inf\"}", "}"), refused);
}

}  // namespace
}  // namespace shampoo::checkpoint::test
