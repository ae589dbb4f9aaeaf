// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "kernels/rules/stored.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class SavedStates : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

/// The rows up to the diagonal of a symmetric matrix, which is checked to be one.
std::vector<std::byte> packed(const SavedTensor& matrix) {
  const auto elements = matrix.elements<float>();
  const auto n = static_cast<std::size_t>(matrix.shape.at(0));
  EXPECT_EQ(matrix.shape, (std::vector<std::int64_t>(2, matrix.shape.at(0))));
  std::vector<float> rows;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      EXPECT_EQ(elements[i * n + j], elements[j * n + i]);
      rows.push_back(elements[i * n + j]);
    }
  const auto bytes = std::as_bytes(std::span(rows));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> bytes_of(const SavedTensor& tensor) {
  const auto bytes = tensor.elements<std::byte>();
  return {bytes.begin(), bytes.end()};
}

TEST_F(SavedStates, OfThreeRanksHaveEveryTensorWhole) {
  const Trainee trainee = everything();
  save_first<float>(folder_.path() / "root", trainee, {.ranks = 3, .groups = 2});
  const End<float> end = train_first<float>(trainee, {.groups = 2});
  const SavedState saved = read_state_dict(folder_.path() / "root");

  std::set<std::string> names;
  for (const StateTensor& tensor : end.state.tensors) {
    const auto found = saved.find(tensor.name());
    ASSERT_TRUE(found) << tensor.name();
    EXPECT_EQ(found->name, tensor.name());
    EXPECT_TRUE((tensor.layout == StateLayout::symmetric ? packed(*found) : bytes_of(*found)) ==
                tensor.bytes)
        << tensor.name();
    names.insert(tensor.name());
  }
  for (const SavedTensorInfo& info : saved.tensors()) {
    EXPECT_EQ(names.erase(info.name), 1u) << info.name;
    EXPECT_EQ(static_cast<const SavedTensorInfo&>(saved.find(info.name).value()), info);
  }
  EXPECT_TRUE(names.empty());

  EXPECT_EQ(saved.ranks(), 3);
  EXPECT_EQ(saved.progress(), end.state.progress);
  ASSERT_EQ(saved.parameters().size(), end.state.parameters.size());
  for (std::size_t p = 0; p < saved.parameters().size(); ++p) {
    ParameterState expected = end.state.parameters[p];
    expected.blocks.clear();
    std::ranges::sort(expected.recipe, {}, &RecipeField::name);
    EXPECT_EQ(saved.parameters()[p], expected) << expected.name;
    const auto moment = saved.find(expected.name + "/filtered_gradient");
    ASSERT_TRUE(moment);
    EXPECT_EQ(moment->shape, expected.shape);
  }
  for (std::size_t t = 0; t < trainee.shapes.size(); ++t) {
    const auto value = saved.find_user("tensor" + std::to_string(t));
    ASSERT_TRUE(value);
    EXPECT_EQ(value->shape, trainee.shapes[t]);
    const auto& narrow = end.values.second[t];
    if (narrow.empty())
      EXPECT_TRUE(std::ranges::equal(value->elements<float>(), end.values.first[t]));
    else
      EXPECT_TRUE(std::ranges::equal(value->elements<std::uint16_t>(), narrow));
  }
  EXPECT_EQ(saved.user_tensors().size(), trainee.shapes.size());
}

TEST_F(SavedStates, HaveTheRootsThatAStepApplies) {
  Trainee trainee{.recipes = {quick_recipe()}};
  trainee.recipes.front().preconditioner = RootInverse{.root_type = Type::float16};
  save_first<float>(folder_.path() / "root", trainee, {.ranks = 2});
  const End<float> end = train_first<float>(trainee, {});
  const SavedState saved = read_state_dict(folder_.path() / "root" / "step-7");
  int roots = 0;
  for (const StateTensor& tensor : end.state.tensors) {
    if (!tensor.slot.starts_with("root/")) continue;
    StateTensor scale = tensor;
    scale.slot = "root_scale/" + tensor.slot.substr(5);
    scale.layout = StateLayout::vector;
    const StateTensor* const scales = end.state.find(scale.name());
    ASSERT_TRUE(scales);
    const auto d = [&](std::size_t i) {
      float number;
      std::memcpy(&number, scales->bytes.data() + i * sizeof number, sizeof number);
      return number;
    };
    const auto found = saved.find(tensor.name());
    ASSERT_TRUE(found);
    const auto n = static_cast<std::size_t>(found->shape.at(0));
    for (std::size_t i = 0, at = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j, ++at) {
        kernels::Float16 c;
        std::memcpy(&c, tensor.bytes.data() + at * sizeof c, sizeof c);
        const float root = d(i) * kernels::to_float(c) * d(j);
        EXPECT_EQ(found->elements<float>()[i * n + j], root);
        EXPECT_EQ(found->elements<float>()[j * n + i], root);
      }
    ++roots;
  }
  EXPECT_GT(roots, 3);
}

TEST_F(SavedStates, LackWhatWasNotSaved) {
  save_first<float>(folder_.path() / "root", everything(), {.ranks = 2});
  const SavedState saved = read_state_dict(folder_.path() / "root");
  for (const char* const name :
       {"", "tensor0", "tensor0/", "tensor0/factor/0", "tensor0/factor/0/", "tensor0/factor/0/1.0",
        "tensor0/factor/0/x", "tensor0/factor/9/0.0", "tensor0/filtered_gradient/0.0", "a/b/c"})
    EXPECT_FALSE(saved.find(name)) << name;
  EXPECT_FALSE(saved.find_user("tensor999"));
  const auto moment = saved.find("tensor0/filtered_gradient");
  ASSERT_TRUE(moment);
  EXPECT_EQ(error_of<std::invalid_argument>([&] { moment->elements<double>(); }),
            "tensor 'tensor0/filtered_gradient': its elements are F32, not of the type that was "
            "asked for");
  EXPECT_EQ(error_of<CheckpointError>([&] { read_state_dict(folder_.path() / "none"); }),
            (folder_.path() / "none").string() + ": there is no checkpoint");
  EXPECT_EQ(error_of<std::out_of_range>([&] { saved.rank_values(2); }),
            "rank: must be in [0, 2), got 2");
}

TEST_F(SavedStates, AreComparedWithTheirChecksums) {
  const auto made = save_first<float>(folder_.path() / "root", everything(), {.ranks = 1});
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(made))
    if (entry.path().extension() == ".safetensors") file = entry.path();
  {
    const SavedState saved = read_state_dict(made);
    ASSERT_TRUE(saved.find("tensor0/filtered_gradient"));
  }
  // Headers and the checksums of the checksums stay right.
  const checkpoint::SafetensorsFile whole(file);
  std::string text = content_of(file);
  for (std::size_t at = whole.data_begin(); at < whole.data_begin() + whole.tensors().back().begin;
       ++at)
    text[at] = static_cast<char>(text[at] ^ 1);
  std::ofstream(file, std::ios::binary) << text;
  const SavedState saved = read_state_dict(made);
  for (const SavedTensorInfo& info : saved.tensors())
    EXPECT_NE(error_of<CheckpointError>([&] { saved.find(info.name); }), "") << info.name;
  const SavedState unchecked = read_state_dict(made, false);
  for (const SavedTensorInfo& info : saved.tensors()) EXPECT_TRUE(unchecked.find(info.name));
}

}  // namespace
}  // namespace shampoo::test
