// SPDX-License-Identifier: Apache-2.0
#include "grouping/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace shampoo::grouping {
namespace {

TEST(ExactText, IsTheShortestThatReadsBack) {
  EXPECT_EQ(exact_text(0.1), "0.1");
  EXPECT_EQ(exact_text(static_cast<double>(0.1f)), "0.10000000149011612");
  EXPECT_EQ(exact_text(1e-8), "1e-08");
  EXPECT_EQ(exact_text(std::numeric_limits<double>::lowest()), "-1.7976931348623157e+308");
  EXPECT_EQ(exact_text(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(Hexadecimal, IsSpeltInOneWayOnly) {
  EXPECT_EQ(hexadecimal(0xfedcba9876543210), "fedcba9876543210");
  EXPECT_EQ(from_hexadecimal("000000000000000a"), 10U);
  for (const char* text : {"", "a", "000000000000000A", "0x0000000000000a", "00000000000000000",
                           "000000000000000g", " 00000000000000a"})
    EXPECT_FALSE(from_hexadecimal(text)) << text;
}

TEST(Counted, HasAPlural) {
  EXPECT_EQ(counted(1, "tensor"), "1 tensor");
  EXPECT_EQ(counted(0, "tensor"), "0 tensors");
  EXPECT_EQ(counted(1000, "tensor"), "1,000 tensors");
}

TEST(CountText, SeparatesThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(-123456), "-123,456");
  EXPECT_EQ(count_text(std::numeric_limits<std::int64_t>::max()), "9,223,372,036,854,775,807");
}

TEST(BytesText, ChoosesTheUnit) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(1572864), "1.5 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(bytes_text(std::int64_t{1} << 52), "4.0 PiB");
  EXPECT_EQ(bytes_text(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(RatioText, RoundsToThreeDecimals) {
  EXPECT_EQ(ratio_text(1, 1), "1.000");
  EXPECT_EQ(ratio_text(2, 3), "0.667");
  EXPECT_EQ(ratio_text(10049, 10000), "1.005");
  EXPECT_EQ(ratio_text(1, 0), "-");
}

}  // namespace
}  // namespace shampoo::grouping
