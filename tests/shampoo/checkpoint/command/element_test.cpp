// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/element.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace shampoo::checkpoint::command::test {
namespace {

template <typename Value>
std::string text(Dtype dtype, Value value) {
  return element_text(dtype, std::as_bytes(std::span(&value, 1)));
}

template <typename Value>
double value(Dtype dtype, Value bits) {
  return value_of(dtype, std::as_bytes(std::span(&bits, 1)));
}

TEST(TileTable, OfSixteenBitsHaveTheirValues) {
  EXPECT_EQ(value(Dtype::bf16, std::uint16_t{0x3f80}), 1);
  EXPECT_EQ(value(Dtype::f16, std::uint16_t{0x3c00}), 1);
  EXPECT_EQ(value(Dtype::f16, std::uint16_t{0x0001}), 0x1p-24);
  EXPECT_EQ(value(Dtype::bf16, std::uint16_t{0x0001}), 0x1p-133);
  EXPECT_EQ(text(Dtype::f16, std::uint16_t{0xfc00}), "-inf");
  EXPECT_EQ(text(Dtype::bf16, std::uint16_t{0xbf00}), "-0.5");
}

TEST(TileTable, AreSpeltSoThatTheyCanBeToldApart) {
  EXPECT_EQ(text(Dtype::f32, .1f), "0.1");
  EXPECT_EQ(text(Dtype::f64, .1), "0.1");
  EXPECT_NE(text(Dtype::f64, .1), text(Dtype::f64, .1 + 0x1p-56));
  EXPECT_EQ(text(Dtype::f64, -0.), "-0");
  EXPECT_EQ(text(Dtype::i64, INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(text(Dtype::u64, UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(text(Dtype::i8, std::int8_t{-1}), "-1");
  EXPECT_EQ(text(Dtype::u8, std::uint8_t{255}), "255");
  EXPECT_EQ(text(Dtype::bool8, std::uint8_t{1}), "1");
  EXPECT_EQ(text(Dtype::f8_e4m3, std::uint8_t{0x3a}), "0x3a");
  EXPECT_EQ(text(Dtype::c64, std::array<std::uint8_t, 8>{1, 2, 3, 4, 5, 6, 7, 0xff}),
            "0x01020304050607ff");
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
