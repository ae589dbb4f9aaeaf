// SPDX-License-Identifier: Apache-2.0
#include "grouping/table.h"

#include <gtest/gtest.h>

#include <limits>

namespace shampoo::grouping {
namespace {

TEST(Table, AlignsTheFirstColumnLeftAndTheOthersRight) {
  EXPECT_EQ(table({{"name", "count"}, {"a", "7"}, {"longer", "1,234"}}),
            "  name    count\n"
            "  a           7\n"
            "  longer  1,234\n");
}

TEST(Table, AlignsTheLastColumnsLeftOnRequest) {
  EXPECT_EQ(table({{"a", "bb", "names"}, {"1", "2", "x"}}, 1),
            "  a  bb  names\n"
            "  1   2  x\n");
}

TEST(Table, OfNothingIsNothing) { EXPECT_EQ(table({}), ""); }

TEST(Wrap, BreaksAfterSeparatorsAndKeepsBreaks) {
  EXPECT_EQ(wrap("one, two three\nfour", 9, 2), "  one, two\n  three\n  four\n")
      << "a separator at the limit belongs to the line";
}

TEST(Wrap, CutsAWordThatDoesNotFit) { EXPECT_EQ(wrap("abcdefgh", 3, 1), " abc\n def\n gh\n"); }

TEST(Wrap, OfNothingIsNothing) { EXPECT_EQ(wrap("", 10, 2), ""); }

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
  EXPECT_EQ(bytes_text(std::int64_t{1} << 52), "4,096.0 TiB");
}

TEST(RatioText, RoundsToThreeDecimals) {
  EXPECT_EQ(ratio_text(1, 1), "1.000");
  EXPECT_EQ(ratio_text(2, 3), "0.667");
  EXPECT_EQ(ratio_text(10049, 10000), "1.005");
  EXPECT_EQ(ratio_text(1, 0), "-");
}

}  // namespace
}  // namespace shampoo::grouping
