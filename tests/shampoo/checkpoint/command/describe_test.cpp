// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "shampoo/checkpoint_directory.h"
#include "tests/shampoo/checkpoint/command/asked.h"
#include "tests/shampoo/checkpoint/command/named_checkpoint.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::command::test {
namespace {

using checkpoint::test::Sample;
using checkpoint::test::TemporaryFolder;

TEST(Descriptions, ShowEveryTensorInAlignedColumns) {
  const TemporaryFolder root;
  Sample{.step = 7}.save(root.path());
  const Answer answer = ask({"describe", root.path()});

  EXPECT_TRUE(
      answer.has("  step         7\n"
                 "  saved by     2 ranks\n"
                 "  arithmetic   exact\n"
                 "  library      0, format 1\n"))
      << answer.text;
  EXPECT_TRUE(
      answer.has("  plan         fedcba9876543210\n"
                 "  parameters   1\n"
                 "  user values  1; --values shows them\n"))
      << answer.text;
  EXPECT_TRUE(
      answer.has("  tensor           dtype   shape  bytes  file\n"
                 "  optimizer/w/s/0    F64       3     24  r0.safetensors\n"
                 "  user/count         I64  scalar      8  r0.safetensors\n"
                 "  optimizer/w/s/3    F64       3     24  r1.safetensors\n"
                 "3 tensors, 56 B\n"))
      << answer.text;
}

TEST(Descriptions, AreOfTheLatestOrOfTheNamedCheckpoint) {
  const TemporaryFolder root;
  Sample{.step = 9}.save(root.path());
  Sample{.step = 10}.save(root.path());

  EXPECT_EQ(ask({"describe", root.path(), "--json"}).json().at("step"), 10);
  EXPECT_EQ(ask({"describe", root.path() / "step-9", "--json"}).json().at("step"), 9);
  EXPECT_THROW(ask({"describe", root.path() / "step-11"}), CheckpointError);
}

TEST(Descriptions, LeaveOutWhatThePrefixDoes) {
  const TemporaryFolder root;
  Sample{}.save(root.path());
  const auto json =
      ask({"describe", root.path(), "--prefix=optimizer/w", "--values", "--json"}).json();
  const Answer none = ask({"describe", root.path(), "--prefix", "x"});

  ASSERT_EQ(json.at("tensors").size(), 2);
  EXPECT_EQ(json.at("tensors")[1].at("name"), "optimizer/w/s/3");
  EXPECT_EQ(json.at("tensors")[1].at("file"), "r1.safetensors");
  EXPECT_EQ(json.at("user_values").at("best"), 0.1);
  EXPECT_EQ(json.at("parameters")[0].at("steps"), 0);
  EXPECT_FALSE(ask({"describe", root.path(), "--json"}).json().contains("parameters"));
  EXPECT_TRUE(none.has("0 tensors, 0 B")) << none.text;
  EXPECT_FALSE(none.has("optimizer/")) << none.text;
}

TEST(Descriptions, ShowRatesAndRecipesIfAsked) {
  const TemporaryFolder root;
  Sample{}.save(root.path());
  const Answer answer = ask({"describe", root.path(), "--values"});

  EXPECT_TRUE(answer.has("  best        0.1\n")) << answer.text;
  EXPECT_TRUE(
      answer.has("parameter w\n  steps                     0\n  averaging_weight_sum      0.0\n"))
      << answer.text;
  EXPECT_TRUE(answer.has("  beta3                     not set\n")) << answer.text;
  EXPECT_TRUE(answer.has("  averaging                 none\n")) << answer.text;
}

TEST(Descriptions, NameTheOptimizersOfACheckpointOfSeveral) {
  const TemporaryFolder root;
  const auto path = save_named(root.path(), 1, {}) / manifest_name;
  Manifest manifest = read_manifest(path);
  manifest.progress = {.attempts = 1, .taken = 1};
  manifest.optimizers = {{"generator", "", 0, manifest.progress},
                         {"critic", "", 7, {.attempts = 5, .taken = 4}}};
  checkpoint::test::put(path, to_json(manifest));
  const Answer answer = ask({"describe", root.path()});

  EXPECT_TRUE(
      answer.has("  optimizer    generator, 1 step\n"
                 "  optimizer    critic, 5 steps\n"))
      << answer.text;
  const auto json = ask({"describe", root.path(), "--json"}).json();
  EXPECT_EQ(json.at("optimizers")[1].at("progress").at("taken"), 4);
}

TEST(Descriptions, LetNoNameSpeakToTheTerminal) {
  const TemporaryFolder root;
  save_named(root.path(), 1, {"a\x1b[2J\n\xc2\x9b\xc3\xa9"}, {{"key\x1b", "line\nline"}});
  const Answer answer = ask({"describe", root.path(), "--values"});

  EXPECT_TRUE(answer.has("user/a?[2J??\xc3\xa9  ")) << answer.text;
  EXPECT_TRUE(answer.has("key?")) << answer.text;
  EXPECT_TRUE(answer.has("\"line\\nline\"")) << answer.text;
  EXPECT_FALSE(answer.has("\x1b"));
}

TEST(Descriptions, OfEmptyCheckpointsAreShort) {
  const TemporaryFolder root;
  EXPECT_THROW(ask({"describe", root.path()}), CheckpointError);
  save_named(root.path(), 0, {});
  EXPECT_TRUE(ask({"describe", root.path()}).has("0 tensors, 0 B"));
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
