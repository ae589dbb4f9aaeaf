// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "shampoo/checkpoint_error.h"
#include "tests/shampoo/checkpoint/command/asked.h"
#include "tests/shampoo/checkpoint/command/cut_checkpoint.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::command::test {
namespace {

using checkpoint::test::Sample;
using checkpoint::test::TemporaryFolder;

TEST(Descriptions, ShowEveryPieceInAlignedColumns) {
  const TemporaryFolder root;
  Sample{.step = 7}.save(root.path());
  const Answer answer = ask({"describe", root.path()});

  EXPECT_TRUE(
      answer.has("step        7\n"
                 "saved by    2 ranks\n"
                 "arithmetic  exact\n"
                 "library     0, format 1\n"))
      << answer.text;
  EXPECT_TRUE(
      answer.has("plan        fedcba9876543210\n"
                 "values      1; --values shows them\n"))
      << answer.text;
  EXPECT_TRUE(
      answer.has("tensor  dtype   shape  bytes  piece       file\n"
                 "w       F64       2x3     48  [0:1, 0:3]  r0.safetensors\n"
                 "                              [1:2, 0:3]  r1.safetensors\n"
                 "count   I64    scalar      8  all         r0.safetensors\n"
                 "2 tensors, 56 B\n"))
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
  const auto json = ask({"describe", root.path(), "--prefix=w", "--values", "--json"}).json();
  const Answer none = ask({"describe", root.path(), "--prefix", "x", "--values"});

  ASSERT_EQ(json.at("tensors").size(), 1);
  EXPECT_EQ(json.at("tensors")[0].at("pieces")[1].at("offset"), (std::vector<int>{1, 0}));
  EXPECT_EQ(json.at("values").at("w/learning_rate"), "0.1");
  EXPECT_TRUE(none.has("0 tensors, 0 B")) << none.text;
  EXPECT_FALSE(none.has("learning_rate")) << none.text;
}

TEST(Descriptions, LetNoNameSpeakToTheTerminal) {
  const TemporaryFolder root;
  const CutTensor tensor{"a\x1b[2J\n\xc2\x9b\xc3\xa9", Dtype::u8, {}, {{}}, {std::byte{1}}};
  save_cut(root.path(), 1, {tensor}, {{"key", "line\nline"}});
  const Answer answer = ask({"describe", root.path(), "--values"});

  EXPECT_TRUE(answer.has("a?[2J??\xc3\xa9  U8 ")) << answer.text;
  EXPECT_TRUE(answer.has("line?line")) << answer.text;
  EXPECT_FALSE(answer.has("\x1b"));
}

TEST(Descriptions, OfEmptyCheckpointsAreShort) {
  const TemporaryFolder root;
  EXPECT_THROW(ask({"describe", root.path()}), CheckpointError);
  save_cut(root.path(), 0, {});
  EXPECT_TRUE(ask({"describe", root.path()}).has("0 tensors, 0 B"));
  save_cut(root.path(), 1, {{"e", Dtype::f32, {0, 3}, {}, {}}});
  EXPECT_TRUE(ask({"describe", root.path()}).has("e       F32      0x3      0  none"));
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
