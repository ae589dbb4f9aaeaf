// SPDX-License-Identifier: Apache-2.0
#include "grouping/merge.h"

#include <gtest/gtest.h>

namespace shampoo::grouping {
namespace {

PlannedGroup group(const std::string& recipe, int parameters) {
  return {recipe, std::vector<PlannedParameter>(parameters)};
}

TEST(Merge, OfNothingIsNothing) { EXPECT_TRUE(merge({}).empty()); }

TEST(Merge, JoinsEqualRecipesInTheCallersOrder) {
  const std::vector<PlannedGroup> groups = {group("shampoo", 2), group("adam", 1),
                                            group("shampoo", 1)};

  const std::vector<VirtualGroup> merged = merge(groups);

  const std::vector<VirtualGroup> expected = {{"shampoo", {{0, 0}, {0, 1}, {2, 0}}},
                                              {"adam", {{1, 0}}}};
  EXPECT_EQ(merged, expected);
}

TEST(Merge, OrdersByFirstAppearanceAndNotByText) {
  const std::vector<PlannedGroup> groups = {group("z", 1), group("a", 1), group("m", 1),
                                            group("a", 1)};

  const std::vector<VirtualGroup> merged = merge(groups);

  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].recipe, "z");
  EXPECT_EQ(merged[1].recipe, "a");
  EXPECT_EQ(merged[2].recipe, "m");
}

TEST(Merge, ComparesRecipesByteForByte) {
  using std::string_literals::operator""s;
  const std::vector<PlannedGroup> groups = {
      group("a", 1),        group("A", 1),     group("a ", 1),   group("", 1),
      group("\xc3\xa4", 1), group("a\0b"s, 1), group("a\0c"s, 1)};

  EXPECT_EQ(merge(groups).size(), groups.size());
}

TEST(Merge, KeepsAnEmptyGroupWithoutMembers) {
  const std::vector<VirtualGroup> merged =
      merge(std::vector<PlannedGroup>{group("a", 0), group("b", 1)});

  const std::vector<VirtualGroup> expected = {{"a", {}}, {"b", {{1, 0}}}};
  EXPECT_EQ(merged, expected);
}

TEST(Merge, OfAThousandGroupsOfOneRecipeIsOneVirtualGroup) {
  const std::vector<PlannedGroup> groups(1000, group("a", 3));

  const std::vector<VirtualGroup> merged = merge(groups);

  ASSERT_EQ(merged.size(), 1u);
  ASSERT_EQ(merged[0].members.size(), 3000u);
  EXPECT_EQ(merged[0].members[1234], (Member{411, 1}));
}

TEST(Merge, OfMoreGroupsOnlyAppends) {
  const std::vector<PlannedGroup> more = {group("a", 2), group("b", 1), group("a", 1),
                                          group("c", 2)};
  const std::vector<PlannedGroup> fewer(more.begin(), more.begin() + 2);

  const std::vector<VirtualGroup> before = merge(fewer), after = merge(more);

  ASSERT_EQ(before.size(), 2u);
  ASSERT_EQ(after.size(), 3u);
  for (std::size_t v = 0; v < before.size(); ++v) {
    EXPECT_EQ(after[v].recipe, before[v].recipe);
    ASSERT_GE(after[v].members.size(), before[v].members.size());
    for (std::size_t m = 0; m < before[v].members.size(); ++m)
      EXPECT_EQ(after[v].members[m], before[v].members[m]);
  }
}

}  // namespace
}  // namespace shampoo::grouping
