// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest.h"

#include <gtest/gtest.h>

#include <bit>
#include <clocale>
#include <functional>
#include <limits>

#include "shampoo/checkpoint/format/manifest_head.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

using P = SavedParameter;
using M = Manifest;

std::string refusal(const std::string& text) {
  return message_of<CheckpointError>([&] { manifest_from_json(text); });
}

std::string refusal(const Manifest& manifest) {
  return message_of<CheckpointError>([&] { to_json(manifest); });
}

class Manifests : public testing::Test {
 protected:
  Manifest sample() { return Sample{}.write(folder_.path(), new_save_id()); }

  template <typename Change>
  std::string refusal_after(const Change& change) const {
    Manifest manifest = manifest_;
    change(manifest.parameters[0], manifest);
    return refusal(manifest);
  }

  TemporaryFolder folder_;
  Manifest manifest_ = sample();
};

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
  manifest_.slots = {{"e", StateLayout::elements, 0, Dtype::bf16},
                     {"a", StateLayout::symmetric, 0, Dtype::f64},
                     {"b", StateLayout::square, 0, Dtype::f32},
                     {"c", StateLayout::vector, 0, Dtype::f16}};
  manifest_.parameters[0].slots = {0, 3, 2, 1};
  manifest_.parameters[0].failures = {2, 0};
  manifest_.rates[0].beta3 = 1.0 / 3;
  manifest_.rank_values = {{{"position", std::int64_t{4}}}, {{"position", std::int64_t{5}}}};
  manifest_.user_tensors = {{"generator", Dtype::u8, {4}, 0, 0},
                            {"generator", Dtype::u8, {5}, 1, 1}};
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

  put(path, R"({"save":"a","step":3,)");
  EXPECT_EQ(read_manifest_head(path).sequence, 0) << "absent: the default";

  const auto refusal_of = [&](const std::string& content) {
    put(path, content);
    return message_of<CheckpointError>([&] { read_manifest_head(path); });
  };
  for (std::size_t length = 0; length < text.find('\n'); ++length)
    EXPECT_NE(refusal_of(text.substr(0, length)).find(path.string()), std::string::npos) << length;
  EXPECT_NE(refusal_of(edited(text, R"("sequence":)", R"("sequence":"")")), "");
  for (const char* step : {R"("1")", "1.5", "-1", "1e300", "true", "9223372036854775808"})
    EXPECT_EQ(refusal_of(edited(text, R"("step":1)", std::string(R"("step":)") + step)),
              path.string() +
                  ": manifest: step: must be a whole number from 0 to "
                  "9223372036854775807")
        << step;
  EXPECT_NE(refusal_of(std::string(5000, ' ') + text), "");
}

TEST_F(Manifests, AreRefusedWhereverTheyAreCutOrChanged) {
  const std::string text = to_json(manifest_);
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(refusal(text.substr(0, length)), "") << length;
  for (std::size_t place = 0; place < text.size(); ++place)
    for (const int mask : {1, 32, 255}) {
      std::string flipped = text;
      flipped[place] = static_cast<char>(flipped[place] ^ mask);
      EXPECT_NE(refusal(flipped), "") << place;
    }
  EXPECT_NE(refusal(text + " "), "");
}

/// Beside lies_about(), which DamagedCheckpoints load.
TEST_F(Manifests, AreRefusedByFieldWhereTheyLieConsistently) {
  const std::string text = to_json(manifest_);
  EXPECT_EQ(refusal(edited(text, R"("step":1)", R"("step":2)")), "");
  const std::vector<std::pair<std::string, std::vector<std::string>>> edits{
      {R"("format":1)",
       {R"("format":0)", R"("format":2)", R"("format":"1")", R"("format":1.0)",
        R"("format":1,"format":1)"}},
      {R"("required_features":[])",
       {R"("required_features":["rates.beta9"])", R"("required_features":1)"}},
      {R"("step":1)",
       {R"("step":-1)", R"("step":1.0)", R"("step":9223372036854775808)", R"("step":1,"step":1)"}},
      {R"("sequence":0)", {R"("sequence":-1)"}},
      {R"("parent":"")",
       {R"("parent":null)", R"("parent":")" + std::string(longest_save_id + 1, 'a') + '"'}},
      {R"("ranks":2)", {R"("ranks":0)", R"("ranks":4294967298)"}},
      {"fedcba9876543210", {"FEDCBA9876543210", "dcba9876543210"}},
      {R"("arithmetic":"exact")", {R"("arithmetic":null)"}},
      {R"("attempts":0)", {R"("attempts":-1)"}},
      {R"("taken":0)", {R"("taken":1)"}},
      {R"({"name":"w")", {R"({"name":"w","name":"w")"}},
      {R"("files":[0,1])",
       {R"("files":[0])", R"("files":[0,2])", R"("files":[0,-1])", R"("files":[0,4294967297])",
        R"("files":[0,[1]])", R"("files":[0,1],"failures":[1])",
        R"("files":[0,1],"failures":[1,-1])", R"("files":[0,1],"failures":[1,1,1])",
        R"("files":[0,1],"files":[0,1])"}},
      {R"("block_size":3)", {R"("block_size":0)", R"("block_size":2)"}},
      {R"("elements","dimension":0)", {R"("elements","dimension":1)", R"("vector","dimension":2)"}},
      {R"("averaging_weight_sum":0.0)",
       {R"("averaging_weight_sum":-1.0)", R"("averaging_weight_sum":1e999)",
        R"("averaging_weight_sum":null)"}},
      {R"("slots":[0])", {R"("slots":[1])", R"("slots":[0,0])"}},
      {R"("recipe":0)", {R"("recipe":1)"}},
      {R"("rates":0)",
       {R"("rates":-1)", R"("rates":1)", R"("rates":0,"base_rates":1)",
        R"("rates":0,"group_rates":1)", R"("rates":0,"group_rates":null)"}},
      {R"("averaging":"none")", {R"("averaging":1)"}},
      {R"("beta1":0.9)",
       {R"("beta1":null)", R"("beta1":"0.9")", R"("beta1":1e999)", R"("beta1":0.9,"beta1":0.9)"}},
      {R"("beta3":null)", {R"("beta3":true)"}},
      {"[2,3]", {"[2,-3]", "[2,3.0]", "[[2],3]", "[2,4]"}},
      {R"("merged_shape":[6])", {R"("merged_shape":[7])", R"("merged_shape":[2,3])"}},
      {R"("best":0.1)",
       {R"("best":true)", R"("best":{"float":"0.1"})", R"("best":9223372036854775808)",
        R"("best":0.1,"best":0.2)"}},
      {R"("user_values":{)", {R"("user_values":{"deep":[[[[[[[[[[[[]]]]]]]]]]]],)"}},
      {R"("rank_values":[)", {R"("rank_values":[{})"}},
      {R"("file":0}])",
       {R"("file":0,"rank":0}])", R"("file":0,"rank":-1}])", R"("file":0,"rank":"0"}])"}},
      {R"("user_tensors":[)", {R"("user_tensors":[{},)"}},
      {R"("parameters":[)",
       {R"("parameters":[1,)", R"("parameters":[[],)", R"("parameters":[{},)"}},
      {R"("files":[)", {R"("files":[null,)"}},
      {"exact", {std::string("ex\0ct", 5), "ex\xff"}},
  };
  for (const auto& [from, changes] : edits)
    for (const std::string& to : changes) {
      const std::string changed = edited(text, from, to);
      ASSERT_FALSE(changed.starts_with("no ")) << changed;
      const std::string message = refusal(changed);
      EXPECT_TRUE(message.starts_with("manifest: ")) << to;
      EXPECT_EQ(message.find("checksum"), std::string::npos) << to << message;
    }
  EXPECT_NE(refusal(with_checksum(R"({"format":1)")), "");
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

TEST_F(Manifests, AreReadWithoutWhatANewerVersionAdded) {
  const std::string text = to_json(manifest_);
  Manifest expected = manifest_;
  const auto reads = [&](const char* from, const char* to) {
    EXPECT_EQ(manifest_from_json(edited(text, from, to)), expected) << to;
  };
  reads(R"("step":1)", R"("step":1,"more":{"a":[{"b":[[[[[[[[1]]]]]]]]}]},"more":2)");
  reads(R"({"name":"r0.safetensors")", R"({"more":[1],"name":"r0.safetensors")");
  reads(R"({"name":"w")", R"({"more":{"a":1},"name":"w")");
  reads(R"({"name":"s")", R"({"more":null,"name":"s")");
  reads(R"("beta1":0.9)", R"("beta1":0.9,"beta9":0.9)");
  reads(R"("beta1":0.9,)", "");
  reads(R"("beta3":null,)", "");
  reads(R"(,"required_features":[])", "");
  expected.recipes[0].push_back({"new", "1"});
  reads(R"("averaging":"none")", R"("averaging":"none","new":"1")");
}

TEST_F(Manifests, OfANewerVersionAreRefusedWithItsName) {
  manifest_.library = "7.8.9";
  const std::string text = to_json(manifest_);
  std::string message = refusal(edited(text, R"("format":1)", R"("format":2,"files":7)"));
  EXPECT_NE(message.find("format \"2\""), std::string::npos) << message;
  EXPECT_NE(message.find("version 7.8.9"), std::string::npos) << message;
  message = refusal(edited(text, R"("required_features":[])",
                           R"("required_features":["stochastic rounding"],"slots":0)"));
  EXPECT_NE(message.find("\"stochastic rounding\""), std::string::npos) << message;
  EXPECT_NE(message.find("version 7.8.9"), std::string::npos) << message;
}

/// As of two optimizers, the parameter being of the second.
Manifest of_two(Manifest manifest) {
  manifest.parameters[0].name = "critic/w";
  manifest.progress = {.attempts = 3, .taken = 2};
  manifest.optimizers = {
      {"gen-1.a", manifest.arithmetic, manifest.plan_hash, manifest.progress},
      {"critic", "other", 7, {.attempts = 6, .taken = 6, .gradient_norms = {0.1, 2}}}};
  return manifest;
}

TEST_F(Manifests, OfSeveralOptimizersHaveTheProgressOfEach) {
  const Manifest two = of_two(manifest_);
  const std::string text = to_json(two);
  EXPECT_EQ(manifest_from_json(text), two);
  EXPECT_NE(text.find(R"("required_features":["optimizers"])"), std::string::npos) << text;
  EXPECT_EQ(to_json(manifest_).find("optimizers"), std::string::npos);
}

TEST_F(Manifests, AreRefusedWithANegativeNormOfAGradient) {
  manifest_.progress.gradient_norms = {0, 2, -0.5};
  const std::string fault = "progress: gradient_norms must not be negative";
  EXPECT_NE(refusal(manifest_).find(fault), std::string::npos);
  manifest_.progress.gradient_norms.pop_back();
  const std::string text = to_json(manifest_);
  EXPECT_NE(text.find("[0.0,2.0]"), std::string::npos) << text;
  EXPECT_NE(refusal(edited(text, "[0.0,2.0]", "[0.0,-2.0]")).find(fault), std::string::npos);
}

TEST_F(Manifests, OfSeveralOptimizersAreRefusedUnlessAllFits) {
  const auto refused = [&](const auto& change, const std::string& says) {
    Manifest manifest = of_two(manifest_);
    change(manifest);
    const std::string message = refusal(manifest);
    EXPECT_NE(message.find(says), std::string::npos) << message;
  };
  for (const char* name : {"w", "critic", "critics/w", "/critic/w", "gen-1.a"})
    refused([&](M& m) { m.parameters[0].name = name; }, "none of the optimizers");
  refused([](M& m) { m.optimizers[1].name = "gen-1.a"; }, "occurs twice");
  for (const char* name : {"", "a/b", ".a", "\u00e9"})
    refused([&](M& m) { m.optimizers[0].name = name; }, "not plain");
  refused([](M& m) { m.optimizers[1].progress.taken = 7; }, "7 steps taken of 6");
  refused([](M& m) { m.optimizers[0].progress.attempts = 4; }, "those of the first");
  refused([](M& m) { m.plan_hash = 1; }, "those of the first");
  refused([](M& m) { m.optimizers.resize(limits::recipes + 1); }, "at most");
  const std::string text = to_json(of_two(manifest_));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("plan_hash":"0000000000000007",)", ""},
           {R"(,"arithmetic":"other")", ""},
           {R"({"name":"critic",)", R"({"name":1,)"},
           {R"("optimizers":[)", R"("optimizers":[1,)"}}) {
    const std::string message = refusal(edited(text, from, to));
    EXPECT_NE(message.find("optimizers"), std::string::npos) << from << message;
  }
}

TEST_F(Manifests, AreRefusedUnlessTheyFitTogether) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refusal_after([](P&, M&) {}), "");
  EXPECT_NE(refusal_after([](P& p, M&) { p.files.pop_back(); }), "");
  EXPECT_NE(refusal_after([](P& p, M&) { p.steps = -1; }), "");
  EXPECT_NE(refusal_after([&](P& p, M&) { p.shape = p.merged_shape = {huge, huge}; }), "");
  EXPECT_NE(refusal_after([&](P& p, M&) { p.shape = p.merged_shape = {huge, huge, 0}; }), "");
  EXPECT_NE(refusal_after([](P& p, M& m) { m.parameters.push_back(P(p)); }), "");
  EXPECT_NE(refusal_after([](P&, M& m) { m.files.push_back(m.files[0]); }), "");
  EXPECT_NE(refusal_after([](P&, M& m) { m.user_tensors.push_back(m.user_tensors[0]); }), "");
  EXPECT_NE(refusal_after([](P&, M& m) { m.user_tensors[0].rank = 1; }), "") << "not of rank 0";
  EXPECT_NE(refusal_after([](P&, M& m) { m.user_tensors[0].rank = 2; }), "");
  EXPECT_NE(refusal_after([](P&, M& m) { m.rank_values.resize(3); }), "");
  EXPECT_NE(refusal_after([&](P&, M& m) { m.user_tensors[0].shape = {huge, huge}; }), "");
  EXPECT_NE(refusal_after(
                [](P&, M& m) { m.rates[0].epsilon = std::numeric_limits<double>::quiet_NaN(); }),
            "");
}

TEST_F(Manifests, AreRefusedBeyondTheirLimitsBeforeTheyAreWritten) {
  const auto refused = [&](const auto& change) {
    const std::string message = refusal_after(change);
    EXPECT_NE(message.find("at most"), std::string::npos) << message;
  };
  refused([](P& p, M&) { p.shape.resize(65, 1); });
  refused([](P& p, M&) { p.merged_shape.resize(65, 1); });
  refused([](P& p, M&) { p.slots.resize(65); });
  refused([](P& p, M&) {
    p.shape = p.merged_shape = {static_cast<std::int64_t>(limits::blocks) + 1};
    p.block_size = 1;
    p.files.resize(limits::blocks + 1);
  });
  refused([](P& p, M&) { p.name.assign(limits::text_bytes + 1, 'a'); });
  refused([](P&, M& m) { m.recipes[0].resize(limits::recipe_fields + 1); });
  refused([](P&, M& m) { m.recipes.resize(limits::recipes + 1); });
  refused([](P&, M& m) { m.user_tensors[0].shape.resize(65, 1); });
  refused([](P&, M& m) { m.user_values["x"] = std::string(limits::value_bytes + 1, 'a'); });
  refused([](P&, M& m) {
    for (std::size_t i = 0; i <= limits::user_values; ++i)
      m.user_values[std::to_string(i)] = std::int64_t{1};
  });
  refused([](P&, M& m) {
    m.rank_values.resize(2);
    m.ranks = 2;
    for (std::size_t i = 0; i < 10; ++i)
      for (UserValues& values : m.rank_values)
        values[std::to_string(i)] = std::string(limits::value_bytes - 1, 'a');
  });
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

}  // namespace
}  // namespace shampoo::checkpoint::test
