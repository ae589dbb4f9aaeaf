// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <random>

#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint_error.h"
#include "tests/shampoo/checkpoint/command/asked.h"
#include "tests/shampoo/checkpoint/command/cut_checkpoint.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::command::test {
namespace {

using checkpoint::test::Sample;
using checkpoint::test::TemporaryFolder;
using grouping::Box;

class Compares : public testing::Test {
 protected:
  std::filesystem::path a() const { return folder_.path() / "a"; }
  std::filesystem::path b() const { return folder_.path() / "b"; }
  Answer compare(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"compare", a(), b()};
    words.insert(words.end(), more.begin(), more.end());
    return ask(words);
  }
  nlohmann::json differences(const char* kind) const { return compare({"--json"}).json().at(kind); }

 private:
  TemporaryFolder folder_;
};

/// Cuts a shape at random places along every side, which gives a grid of boxes.
std::vector<Box> random_cut(const std::vector<std::int64_t>& shape, std::mt19937& random) {
  std::vector<Box> boxes{{}};
  for (const std::int64_t side : shape) {
    std::vector<Box> longer;
    std::int64_t begin = 0;
    while (begin < side) {
      const std::int64_t extent =
          std::uniform_int_distribution<std::int64_t>(1, side - begin)(random);
      for (Box box : boxes) {
        box.offset.push_back(begin);
        box.extent.push_back(extent);
        longer.push_back(box);
      }
      begin += extent;
    }
    boxes = longer;
  }
  return boxes;
}

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.f);
  return values;
}

TEST_F(Compares, TheSameStateAsEqualHoweverItIsCut) {
  std::mt19937 random(1);
  const std::vector<std::int64_t> shape{5, 7, 3};
  for (std::int64_t step = 0; step < 5; ++step) {
    for (const auto& root : {a(), b()})
      save_cut(root, step,
               {{"w", Dtype::f32, shape, random_cut(shape, random), bytes_from(counting(105))}});
    const Answer answer = compare();
    EXPECT_EQ(answer.status, 0) << answer.text;
  }
}

TEST_F(Compares, OneElementAnywhereAndNamesItsPlace) {
  std::mt19937 random(2);
  const std::vector<std::int64_t> shape{3, 5, 2};
  for (std::int64_t element = 0; element < 30; element += 7) {
    auto values = counting(30);
    save_cut(a(), element,
             {{"w", Dtype::f32, shape, random_cut(shape, random), bytes_from(values)}});
    values[static_cast<std::size_t>(element)] += 100;
    save_cut(b(), element,
             {{"w", Dtype::f32, shape, random_cut(shape, random), bytes_from(values)}});

    EXPECT_EQ(compare().status, 1);
    const auto found = differences("content").at(0);
    EXPECT_EQ(found.at("different"), 1);
    EXPECT_EQ(found.at("elements"), 30);
    EXPECT_EQ(found.at("first_index"),
              (std::vector<std::int64_t>{element / 10, element / 2 % 5, element % 2}));
    EXPECT_EQ(found.at("a"), std::to_string(element));
    EXPECT_EQ(found.at("b"), std::to_string(element + 100));
    EXPECT_EQ(found.at("largest_absolute"), 100);
    // |a - b| / max(|a|, |b|), correctly rounded
    EXPECT_EQ(found.at("largest_relative"), 100. / (100. + static_cast<double>(element)));
  }
}

TEST_F(Compares, TensorsLongerThanWhatIsReadAtOnce) {
  // 2^18 + 1 columns of 4 bytes: a row is 4 bytes longer than what is read at once.
  const std::int64_t columns = (std::int64_t{1} << 18) + 1;
  const std::vector<std::int64_t> shape{3, columns};
  auto values = counting(static_cast<std::size_t>(3 * columns));
  save_cut(a(), 1, {{"w", Dtype::f32, shape, {{{0, 0}, shape}}, bytes_from(values)}});
  const std::vector<Box> cut{{{0, 0}, {3, 5}}, {{0, 5}, {3, columns - 5}}};
  save_cut(b(), 1, {{"w", Dtype::f32, shape, cut, bytes_from(values)}});
  EXPECT_EQ(compare().status, 0);

  values[static_cast<std::size_t>(2 * columns - 1)] = -1;
  values[static_cast<std::size_t>(3 * columns - 1)] = -1;
  save_cut(b(), 2, {{"w", Dtype::f32, shape, cut, bytes_from(values)}});
  const auto found = differences("content").at(0);
  EXPECT_EQ(found.at("different"), 2);
  EXPECT_EQ(found.at("first_index"), (std::vector<std::int64_t>{1, columns - 1}));
}

TEST_F(Compares, DistancesOfSpecialNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  std::int64_t step = 0;
  const auto distance = [&](double left, double right) {
    const Box scalar;
    save_cut(a(), ++step, {{"x", Dtype::f64, {}, {scalar}, bytes_from<double>({left})}});
    save_cut(b(), step, {{"x", Dtype::f64, {}, {scalar}, bytes_from<double>({right})}});
    EXPECT_EQ(compare().status, 1);
    return differences("content").at(0).at("largest_relative");
  };

  EXPECT_EQ(distance(0., -0.), 0);
  EXPECT_EQ(distance(nan, -nan), 0);
  EXPECT_EQ(distance(nan, 1), "inf");
  EXPECT_EQ(distance(inf, -inf), "inf");
  EXPECT_EQ(distance(inf, 1), "inf");
  EXPECT_EQ(distance(1, 2), .5);
}

TEST_F(Compares, TensorsAndValuesThatAreMissingOrOfAnotherKind) {
  const Box one{{0}, {1}}, two{{0}, {2}};
  const auto bytes = bytes_from<std::uint16_t>({1});
  save_cut(a(), 1,
           {{"here", Dtype::bf16, {1}, {one}, bytes},
            {"kind", Dtype::f16, {1}, {one}, bytes},
            {"long", Dtype::u16, {1}, {one}, bytes},
            {"same", Dtype::u16, {1}, {one}, bytes}},
           {{"rate", "1"}, {"same", "x"}, {"mine", ""}});
  save_cut(b(), 1,
           {{"kind", Dtype::bf16, {1}, {one}, bytes},
            {"long", Dtype::u16, {2}, {two}, bytes_from<std::uint16_t>({1, 1})},
            {"there", Dtype::u16, {1}, {one}, bytes},
            {"same", Dtype::u16, {1}, {one}, bytes}},
           {{"rate", "2"}, {"same", "x"}});

  const auto tensors = differences("tensors"), values = differences("values");
  ASSERT_EQ(tensors.size(), 4);
  EXPECT_EQ(tensors[0].at("name"), "here");
  EXPECT_EQ(tensors[0].at("b"), nullptr);
  EXPECT_EQ(tensors[1].at("a"), "F16 1");
  EXPECT_EQ(tensors[1].at("b"), "BF16 1");
  EXPECT_EQ(tensors[2].at("b"), "U16 2");
  EXPECT_EQ(tensors[3].at("a"), nullptr);
  ASSERT_EQ(values.size(), 2);
  EXPECT_EQ(values[0].at("name"), "mine");
  EXPECT_EQ(values[0].at("a"), "");
  EXPECT_EQ(values[1].at("b"), "2");
  EXPECT_TRUE(compare().has("4 tensors and 2 values differ, 1 and 1 are equal"));
  EXPECT_EQ(compare({"--prefix", "same"}).status, 0);
}

TEST_F(Compares, StepsUnlessAPrefixIsGiven) {
  const CutTensor empty{"e", Dtype::f32, {0, 3}, {}, {}};
  save_cut(a(), 1, {empty});
  save_cut(b(), 2, {empty});

  EXPECT_EQ(compare().status, 1);
  EXPECT_TRUE(compare().has("the steps differ"));
  EXPECT_EQ(compare({"--prefix", "e"}).status, 0);
}

TEST_F(Compares, ElementsOfLessThanAByteByTheirPieces) {
  const CutTensor whole{"x", Dtype::f4, {2}, {{{0}, {2}}}, {std::byte{7}}};
  CutTensor other = whole;
  other.bytes = {std::byte{8}};
  save_cut(a(), 1, {whole});
  save_cut(b(), 1, {whole});
  EXPECT_EQ(compare().status, 0);
  save_cut(a(), 2, {whole});
  save_cut(b(), 2, {other});
  EXPECT_EQ(compare().status, 1);
}

TEST_F(Compares, NothingThatIsDamaged) {
  const auto folder = Sample{}.save(a());
  Sample{}.save(b());
  EXPECT_EQ(compare().status, 0);
  auto content = checkpoint::test::content_of(folder / "r1.safetensors");
  content.back() ^= 1;
  checkpoint::test::put(folder / "r1.safetensors", content);

  EXPECT_THROW(compare(), CheckpointError);
}

TEST_F(Compares, TwoEmptyCheckpointsAsEqual) {
  save_cut(a(), 3, {});
  save_cut(b(), 3, {});

  EXPECT_EQ(compare().status, 0);
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
