// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <clocale>
#include <functional>
#include <limits>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/manifest_head.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint_directory.h"
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

std::string with_checksum(const std::string& body) { return body + checksum_member(body); }

/// With one text replaced in the body, and a checksum that is right.
std::string edited(const std::string& text, const std::string& from, const std::string& to) {
  std::string body = text.substr(0, text.rfind(",\n\"checksum\""));
  const std::size_t place = body.find(from);
  if (place == std::string::npos) return "no " + from;
  return with_checksum(body.replace(place, from.size(), to));
}

TEST_F(Manifests, SurviveTheirText) {
  manifest_.user_values = {
      {"", ""}, {"a\"\n\u00e9", "1e-3"}, {"__proto__", "{}"}, {"n", std::int64_t{-1} << 63}};
  manifest_.parameters[0].slots = {{"e", StateLayout::elements, 0, Dtype::bf16},
                                   {"a", StateLayout::symmetric, 1, Dtype::f64},
                                   {"b", StateLayout::square, 1, Dtype::f32},
                                   {"c", StateLayout::vector, 0, Dtype::f16}};
  for (SavedBlock& block : manifest_.parameters[0].blocks) block.checksums = {1, 2, 3, ~0UL};
  manifest_.parameters[0].state.rates.beta3 = 1.0 / 3;
  manifest_.step = manifest_.sequence = std::numeric_limits<std::int64_t>::max();
  manifest_.parent = new_save_id();
  const std::string text = to_json(manifest_);

  EXPECT_EQ(manifest_from_json(text), manifest_);
  EXPECT_EQ(to_json(manifest_from_json(text)), text);

  Manifest bare;
  bare.save = "s";
  EXPECT_EQ(manifest_from_json(to_json(bare)), bare);
}

TEST_F(Manifests, HaveAHeadThatIsReadWithoutTheRest) {
  manifest_.sequence = std::numeric_limits<std::int64_t>::max();
  manifest_.parent = new_save_id();
  const std::string text = to_json(manifest_);
  const auto path = folder_.path() / manifest_name;
  put(path, text.substr(0, text.find('\n') + 1));
  const ManifestHead head = read_manifest_head(path);
  EXPECT_EQ(head.save, manifest_.save);
  EXPECT_EQ(head.sequence, manifest_.sequence);
  EXPECT_EQ(head.parent, manifest_.parent);
  EXPECT_EQ(head.step, manifest_.step);

  const auto refusal_of = [&](const std::string& content) {
    put(path, content);
    return message_of<CheckpointError>([&] { read_manifest_head(path); });
  };
  for (std::size_t length = 0; length < text.find('\n'); ++length)
    EXPECT_NE(refusal_of(text.substr(0, length)).find(path.string()), std::string::npos) << length;
  EXPECT_NE(refusal_of(edited(text, R"("sequence":)", R"("sequences":)")), "");
  EXPECT_NE(refusal_of(edited(text, R"("step":1)", R"("step":"1")")), "");
  EXPECT_NE(refusal_of(std::string(5000, ' ') + text), "");
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
      {R"("schema":3)", R"("schema":2)"},
      {R"("schema":3)", R"("schema":4)"},
      {R"("schema":3,)", ""},
      {R"("schema":3)", R"("schema":"3")"},
      {R"("schema":3)", R"("schema":3.0)"},
      {R"("step":1)", R"("step":-1)"},
      {R"("step":1)", R"("step":1.0)"},
      {R"("step":1)", R"("step":9223372036854775808)"},
      {R"("step":1)", R"("step":1,"step":1)"},
      {R"("step":1)", R"("step":1,"more":1)"},
      {R"("step":1,)", ""},
      {R"("sequence":0)", R"("sequence":-1)"},
      {R"("sequence":0,)", ""},
      {R"("parent":"")", R"("parent":null)"},
      {R"("parent":"")", R"("parent":")" + std::string(longest_save_id + 1, 'a') + '"'},
      {R"("ranks":2)", R"("ranks":0)"},
      {R"("ranks":2)", R"("ranks":4294967298)"},
      {"fedcba9876543210", "FEDCBA9876543210"},
      {"fedcba9876543210", "dcba9876543210"},
      {R"("arithmetic":"exact")", R"("arithmetic":null)"},
      {R"("attempts":0)", R"("attempts":-1)"},
      {R"("taken":0)", R"("taken":1)"},
      {R"({"name":"r0.safetensors")", R"({"more":1,"name":"r0.safetensors")"},
      {R"({"name":"w")", R"({"more":1,"name":"w")"},
      {R"({"name":"s")", R"({"more":1,"name":"s")"},
      {R"({"offset")", R"({"more":1,"offset")"},
      {R"({"offset")", R"({"offset":[0,0],"offset")"},
      {R"("F64")", R"("f64")"},
      {R"("F64")", R"("I64")"},
      {R"("elements")", R"("triangle")"},
      {R"("elements")", "0"},
      {R"("dimension":0)", R"("dimension":-1)"},
      {R"("elements","dimension":0)", R"("vector","dimension":2)"},
      {R"("averaging_weight_sum":0.0)", R"("averaging_weight_sum":-1.0)"},
      {R"("averaging_weight_sum":0.0)", R"("averaging_weight_sum":1e999)"},
      {R"("averaging_weight_sum":0.0)", R"("averaging_weight_sum":null)"},
      {R"("averaging_weight_sum":0.0,)", ""},
      {R"("slots":[0])", R"("slots":[1])"},
      {R"("slots":[0])", R"("slots":[0,0])"},
      {R"("slots":[0])", R"("slots":[])"},
      {R"("recipe":0)", R"("recipe":1)"},
      {R"("rates":0)", R"("rates":-1)"},
      {R"("averaging":"none")", R"("averaging":1)"},
      {R"("beta1":0.9)", R"("beta1":null)"},
      {R"("beta1":0.9)", R"("beta1":"0.9")"},
      {R"("beta1":0.9)", R"("beta1":1e999)"},
      {R"("beta1":0.9,)", ""},
      {R"("beta1":0.9)", R"("beta1":0.9,"beta9":0.9)"},
      {R"("beta3":null)", R"("beta3":true)"},
      {"[2,3]", "[2,-3]"},
      {"[2,3]", "[2,3.0]"},
      {"[2,3]", "[[2],3]"},
      {"[2,3]", "[2,4]"},
      {R"("merged_shape":[2,3])", R"("merged_shape":[3,2])"},
      {R"("merged_shape":[2,3])", R"("merged_shape":[6])"},
      {R"("best":0.1)", R"("best":true)"},
      {R"("best":0.1)", R"("best":{"float":"0.1"})"},
      {R"("best":0.1)", R"("best":9223372036854775808)"},
      {R"("best":0.1)", R"("best":0.1,"best":0.2)"},
      {R"("user_values":{)", R"("user_values":{"deep":[[[[[[[[[[[[]]]]]]]]]]]],)"},
      {R"("user_tensors":[)", R"("user_tensors":[{},)"},
      {R"("parameters":[)", R"("parameters":[1,)"},
      {R"("parameters":[)", R"("parameters":[[],)"},
      {R"("parameters":[)", R"("parameters":[{},)"},
      {R"("files":[)", R"("files":[null,)"},
      {"exact", std::string("ex\0ct", 5)},
      {"exact", "ex\xff"},
  };
  for (const auto& [from, to] : edits) {
    const std::string changed = edited(text, from, to);
    ASSERT_FALSE(changed.starts_with("no ")) << changed;
    const std::string message = refusal(changed);
    EXPECT_TRUE(message.starts_with("manifest: ")) << to;
    EXPECT_EQ(message.find("checksum"), std::string::npos) << to << message;
  }
  EXPECT_NE(refusal(with_checksum(R"({"schema":3)")), "");
  EXPECT_NE(refusal(with_checksum(std::string(100'000, '['))), "");
  EXPECT_NE(refusal(with_checksum("")), "");
}

TEST_F(Manifests, NameNoFileOutsideOfTheirFolder) {
  for (const char* name : {"", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", ".hidden",
                           "manifest.json", "a b", "a\n", "\u00e9", "C:x"}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
    Manifest manifest = manifest_;
    manifest.files[0].name = name;
    EXPECT_NE(refusal(manifest), "") << name;
  }
  EXPECT_FALSE(is_plain_name(std::string(256, 'a')));
  EXPECT_TRUE(is_plain_name(std::string(255, 'a')));
  EXPECT_TRUE(is_plain_name("shampoo-r00003-of-00008.safetensors"));
}

TEST_F(Manifests, AreRefusedUnlessBlocksCoverTheirParameterOnce) {
  const auto refused = [&](const auto& change) {
    Manifest manifest = manifest_;
    change(manifest.parameters[0], manifest);
    return refusal(manifest);
  };
  using P = SavedParameter;
  using M = Manifest;
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refused([](P&, M&) {}), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks.pop_back(); }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks.clear(); }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].state.box.offset = {0, 0}; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].state.box.offset = {2, 0}; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].state.box.offset = {-1, 0}; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].state.box.offset = {1}; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].state.box.extent = {1, 2}; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].state.box.extent = {1, 3, 1}; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1] = p.blocks[0]; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].file = 2; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].checksums.clear(); }), "");
  EXPECT_NE(refused([](P& p, M&) { p.blocks[1].state.failures = -1; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.state.steps = -1; }), "");
  EXPECT_NE(refused([](P& p, M&) { p.state.shape = {2, 4}; }), "");
  EXPECT_NE(refused([&](P& p, M&) { p.state.shape = p.merged_shape = {huge, huge}; }), "");
  EXPECT_NE(refused([](P& p, M& m) { m.parameters.push_back(P(p)); }), "");
  EXPECT_NE(refused([](P&, M& m) { m.files.push_back(m.files[0]); }), "");
  EXPECT_NE(refused([](P&, M& m) { m.user_tensors.push_back(m.user_tensors[0]); }), "");
  EXPECT_NE(refused([](P&, M& m) { m.user_tensors[0].file = 2; }), "");
  EXPECT_NE(refused([&](P&, M& m) { m.user_tensors[0].shape = {huge, huge}; }), "");
  EXPECT_NE(
      refused([](P& p, M&) { p.state.rates.epsilon = std::numeric_limits<double>::quiet_NaN(); }),
      "");
}

TEST_F(Manifests, HaveExactNumbersInAnyLocale) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* locale : {"C", "de_DE.UTF-8"}) {
    std::setlocale(LC_ALL, locale);
    for (const double number :
         {0.1, -0.0, 1.0, 1e-310, 1.7976931348623157e308, 1.0 / 3,
          std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()}) {
      manifest_.user_values = {{"number", number}};
      const Manifest read = manifest_from_json(to_json(manifest_));
      EXPECT_EQ(std::bit_cast<std::uint64_t>(std::get<double>(read.user_values.at("number"))),
                std::bit_cast<std::uint64_t>(number));
    }
    EXPECT_EQ(to_json(UserValue(0.1)), "0.1");
    EXPECT_EQ(to_json(UserValue(1.0)), "1.0");
  }
  std::setlocale(LC_ALL, before.c_str());
  EXPECT_THROW(to_json(UserValue("\xe4")), CheckpointError);
}

TEST_F(Manifests, OfManyBlocksAreReadInSeconds) {
  Manifest manifest;
  manifest.save = "s";
  manifest.files = {{"f", 1, 1}};
  constexpr std::int64_t side = 150;
  const auto parameter = [](const std::string& name, std::vector<std::int64_t> shape) {
    SavedParameter made;
    made.state.name = name;
    made.state.shape = made.merged_shape = std::move(shape);
    made.slots = {{"s", StateLayout::elements, 0, Dtype::f32}};
    return made;
  };
  SavedParameter tall = parameter("tall", {side, side});
  SavedParameter flat = parameter("flat", {1, side * side});
  for (std::int64_t i = 0; i < side * side; ++i) {
    tall.blocks.push_back({{{{i / side, i % side}, {1, 1}}, 0, 0}, 0, {1}});
    flat.blocks.push_back({{{{0, i}, {1, 1}}, 0, 0}, 0, {1}});
    manifest.user_values[std::to_string(i)] = i;
  }
  manifest.parameters = {tall, flat};
  for (int i = 0; i < 20'000; ++i)
    manifest.parameters.push_back(parameter("s" + std::to_string(i), {}));
  for (SavedParameter& scalar : manifest.parameters)
    if (scalar.blocks.empty()) scalar.blocks.push_back({{{}, 0, 0}, 0, {1}});
  const auto start = std::chrono::steady_clock::now();

  EXPECT_EQ(manifest_from_json(to_json(manifest)), manifest);

  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

}  // namespace
}  // namespace shampoo::checkpoint::test
