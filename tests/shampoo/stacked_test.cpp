// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

TEST(Stacked, LayersLieAStrideApartEachTensorInElementsOfItsOwnType) {
  std::vector<std::uint16_t> values(60);
  std::vector<float> gradients(60);

  const auto layers =
      stacked("h.%d.w", {4, 5}, {values.data(), Type::bfloat16}, gradients.data() + 1, 21, 2);

  ASSERT_EQ(layers.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(layers[i].name, "h." + std::to_string(i) + ".w");
    EXPECT_EQ(layers[i].shape, (std::vector<std::int64_t>{4, 5}));
    EXPECT_EQ(layers[i].value.data, values.data() + 21 * i);
    EXPECT_EQ(layers[i].value.type, Type::bfloat16);
    EXPECT_EQ(layers[i].gradient.data, gradients.data() + 1 + 21 * i);
    EXPECT_EQ(layers[i].gradient.type, Type::float32);
  }
}

TEST(Stacked, AnAbsentGradientIsAbsentInAllLayersAndStridesAreKept) {
  std::vector<double> values(12);

  // The layers are the columns of a matrix 4 x 3.
  const auto layers =
      stacked("%d", {4}, {values.data(), Type::float64, {3}}, {nullptr, Type::float64}, 1, 3);

  ASSERT_EQ(layers.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(layers[i].value.data, values.data() + i);
    EXPECT_EQ(layers[i].value.strides, (std::vector<std::int64_t>{3}));
    EXPECT_EQ(layers[i].gradient.data, nullptr);
  }
}

TEST(Stacked, AScalarAndAnEmptyLayerHaveAStrideOfTheirElements) {
  float values[2] = {};
  EXPECT_EQ(stacked("s%d", {}, values, values, 1, 2)[1].value.data, values + 1);
  EXPECT_EQ(stacked("e%d", {0, 7}, values, values, 0, 2)[1].value.data, values);
}

TEST(Stacked, SaysWhatIsWrong) {
  float x = 0;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto error = [&](const char* pattern, std::vector<std::int64_t> shape, std::int64_t stride,
                         std::int64_t count) {
    return error_of<std::invalid_argument>([&] { stacked(pattern, shape, &x, &x, stride, count); });
  };

  EXPECT_EQ(error("h", {2}, 2, 1), "pattern: must have \"%d\" once and no other '%', got 'h'");
  EXPECT_EQ(error("%d%d", {2}, 2, 1),
            "pattern: must have \"%d\" once and no other '%', got '%d%d'");
  EXPECT_EQ(error("100%", {2}, 2, 1),
            "pattern: must have \"%d\" once and no other '%', got '100%'");
  EXPECT_EQ(error("h%d", {2, -1}, 2, 1), "'h%d': shape: sides must be >= 0, got -1");
  EXPECT_EQ(error("h%d", {2}, 2, 0), "'h%d': count: must be in [1, 2^20], got 0");
  EXPECT_EQ(error("h%d", {0}, 0, std::int64_t{1} << 40),
            "'h%d': count: must be in [1, 2^20], got 1099511627776");
  EXPECT_EQ(error("h%d", {2, 3}, 5, 2),
            "'h%d': stride: must be >= 6, the elements of a layer, got 5");
  EXPECT_EQ(error("h%d", {2}, most / 2, 3),
            "'h%d': stride: all 3 layers must have less than 2^40 elements, got " +
                std::to_string(most / 2));
}

}  // namespace
}  // namespace shampoo::test
