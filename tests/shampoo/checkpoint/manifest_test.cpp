// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/manifest_checksum.h"
#include "shampoo/checkpoint_error.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

class Manifests : public testing::Test {
 protected:
  Manifest sample() { return Sample{}.write(folder_.path(), new_save_id()); }

  TemporaryFolder folder_;
  Manifest manifest_ = sample();
};

std::string refusal(const std::string& text) {
  return message_of<CheckpointError>([&] { manifest_from_json(text); });
}

std::string refusal(const Manifest& manifest) {
  return message_of<CheckpointError>([&] { to_json(manifest); });
}

/// With one text replaced in the body, and sealed again.
std::string edited(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t seal = text.rfind(",\n\"checksum\"");
  std::string body = text.substr(0, seal);
  const std::size_t place = body.find(from);
  if (place == std::string::npos) return "no " + from;
  return sealed(body.replace(place, from.size(), to));
}

TEST_F(Manifests, SurviveTheirText) {
  manifest_.values = {{"", ""}, {"a\"\n\u00e9", "1e-3"}, {"__proto__", "{}"}};
  manifest_.step = std::numeric_limits<std::int64_t>::max();
  const std::string text = to_json(manifest_);

  EXPECT_EQ(manifest_from_json(text), manifest_);
  EXPECT_EQ(to_json(manifest_from_json(text)), text);

  Manifest bare;
  bare.save = "s";
  EXPECT_EQ(manifest_from_json(to_json(bare)), bare);
}

TEST_F(Manifests, AreRefusedWhereverTheyAreCutOrChanged) {
  const std::string text = to_json(manifest_);
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(refusal(text.substr(0, length)), "") << length;
  for (std::size_t place = 0; place < text.size(); ++place)
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string flipped = text;
      flipped[place] = static_cast<char>(flipped[place] ^ mask);
      EXPECT_NE(refusal(flipped), "") << place;
    }
  EXPECT_NE(refusal(text + " "), "");
}

TEST_F(Manifests, AreRefusedByFieldWhereTheyLieConsistently) {
  const std::string text = to_json(manifest_);
  EXPECT_EQ(refusal(edited(text, R"("step":1)", R"("step":2)")), "");
  const std::vector<std::pair<std::string, std::string>> edits{
      {R"("schema":1)", R"("schema":2)"},
      {R"("schema":1,)", ""},
      {R"("schema":1)", R"("schema":"1")"},
      {R"("step":1)", R"("step":-1)"},
      {R"("step":1)", R"("step":1.0)"},
      {R"("step":1)", R"("step":9223372036854775808)"},
      {R"("step":1)", R"("step":1,"step":1)"},
      {R"("step":1)", R"("step":1,"more":1)"},
      {R"("step":1,)", ""},
      {R"("world":2)", R"("world":0)"},
      {R"("world":2)", R"("world":4294967298)"},
      {"fedcba9876543210", "FEDCBA9876543210"},
      {"fedcba9876543210", "dcba9876543210"},
      {R"("arithmetic":"exact")", R"("arithmetic":null)"},
      {R"({"name":"r0.safetensors")", R"({"more":1,"name":"r0.safetensors")"},
      {R"({"name":"w")", R"({"more":1,"name":"w")"},
      {R"({"offset")", R"({"more":1,"offset")"},
      {R"({"offset")", R"({"offset":[0,0],"offset")"},
      {R"("F64")", R"("f64")"},
      {"[2,3]", "[2,-3]"},
      {"[2,3]", "[2,3.0]"},
      {"[2,3]", "[[2],3]"},
      {"[2,3]", "[2,4]"},
      {"[2,3]", "[3,2]"},
      {"[2,3]", "[6]"},
      {R"("0.1")", "0.1"},
      {R"("0.1")", R"("0.1","w/learning_rate":"0.2")"},
      {R"("values":{)", R"("values":{"deep":[[[[[[[[[[[[]]]]]]]]]]]],)"},
      {R"("tensors":[)", R"("tensors":[1,)"},
      {R"("tensors":[)", R"("tensors":[[],)"},
      {R"("tensors":[)", R"("tensors":[{},)"},
      {R"("files":[)", R"("files":[null,)"},
      {"exact", std::string("ex\0ct", 5)},
      {"exact", "ex\xff"},
  };
  for (const auto& [from, to] : edits) {
    const std::string message = refusal(edited(text, from, to));
    EXPECT_TRUE(message.starts_with("manifest: ")) << to;
    EXPECT_EQ(message.find("checksum"), std::string::npos) << to << message;
  }
  EXPECT_NE(refusal(sealed(R"({"schema":1)")), "");
  EXPECT_NE(refusal(sealed(std::string(100'000, '['))), "");
  EXPECT_NE(refusal(sealed("")), "");
}

TEST_F(Manifests, NameNoFileOutsideOfTheirFolder) {
  for (const char* name : {"", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", ".hidden",
                           "manifest.json", "a b", "a\n", "\u00e9", "C:x"}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
    Manifest manifest = manifest_;
    manifest.files[0].name = name;
    for (SavedTensor& tensor : manifest.tensors)
      for (SavedPiece& piece : tensor.pieces)
        if (piece.file == "r0.safetensors") piece.file = name;
    EXPECT_NE(refusal(manifest), "") << name;
  }
  EXPECT_FALSE(is_plain_name(std::string(256, 'a')));
  EXPECT_TRUE(is_plain_name(std::string(255, 'a')));
  EXPECT_TRUE(is_plain_name("shampoo-r00003-of-00008.safetensors"));
}

TEST_F(Manifests, AreRefusedUnlessPiecesCoverTheirTensorOnce) {
  const auto refused = [&](const std::function<void(Manifest&)>& change) {
    Manifest manifest = manifest_;
    change(manifest);
    return refusal(manifest);
  };
  EXPECT_EQ(refused([](Manifest&) {}), "");
  const auto pieces = [](Manifest & m) -> auto& { return m.tensors[0].pieces; };
  EXPECT_NE(refused([&](Manifest& m) { pieces(m).pop_back(); }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m).clear(); }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m)[1].box.offset = {0, 0}; }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m)[1].box.offset = {2, 0}; }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m)[1].box.offset = {-1, 0}; }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m)[1].box.offset = {1}; }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m)[1].box.extent = {1, 2}; }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m)[1].box.extent = {1, 3, 1}; }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m)[1].file = "r2.safetensors"; }), "");
  EXPECT_NE(refused([&](Manifest& m) { pieces(m)[1] = pieces(m)[0]; }), "");
  EXPECT_NE(refused([&](Manifest& m) { m.tensors[1].pieces[0].key = "w/0"; }), "");
  EXPECT_NE(refused([&](Manifest& m) { m.tensors[1].name = "w"; }), "");
  EXPECT_NE(refused([&](Manifest& m) { m.files.push_back(m.files[0]); }), "");
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(refused([&](Manifest& m) { m.tensors[0].shape = {huge, huge}; }), "");
}

TEST_F(Manifests, OfManyPiecesAreReadInSeconds) {
  Manifest manifest;
  manifest.save = "s";
  manifest.files = {{"f", 1, 1}};
  constexpr std::int64_t side = 150;
  SavedTensor tall{"tall", Dtype::f32, {side, side}, {}};
  SavedTensor flat{"flat", Dtype::f32, {1, side * side}, {}};
  for (std::int64_t i = 0; i < side * side; ++i) {
    const std::string key = std::to_string(i);
    tall.pieces.push_back({{{i / side, i % side}, {1, 1}}, "f", "t" + key, 1});
    flat.pieces.push_back({{{0, i}, {1, 1}}, "f", "f" + key, 1});
    manifest.values[key] = "1";
  }
  manifest.tensors = {tall, flat};
  for (int i = 0; i < 20'000; ++i)
    manifest.tensors.push_back(
        {"s" + std::to_string(i), Dtype::f32, {}, {{{{}, {}}, "f", std::to_string(i), 1}}});
  const auto start = std::chrono::steady_clock::now();

  EXPECT_EQ(manifest_from_json(to_json(manifest)), manifest);

  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

}  // namespace
}  // namespace shampoo::checkpoint::test
