// SPDX-License-Identifier: Apache-2.0
#include "grouping/table.h"

#include <gtest/gtest.h>

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

TEST(Table, CountsCharactersNotBytes) {
  EXPECT_EQ(table({{"name", "n"}, {"\xc3\xa9t\xc3\xa9", "10"}}),
            "  name   n\n"
            "  \xc3\xa9t\xc3\xa9   10\n");
}

TEST(Table, OfNothingIsNothing) { EXPECT_EQ(table({}), ""); }

TEST(Wrap, BreaksAfterSeparatorsAndKeepsBreaks) {
  EXPECT_EQ(wrap("one, two three\nfour", 9, 2), "  one, two\n  three\n  four\n")
      << "a separator at the limit belongs to the line";
}

TEST(Wrap, CutsAWordThatDoesNotFit) { EXPECT_EQ(wrap("abcdefgh", 3, 1), " abc\n def\n gh\n"); }

TEST(Wrap, OfNothingIsNothing) { EXPECT_EQ(wrap("", 10, 2), ""); }

}  // namespace
}  // namespace shampoo::grouping
