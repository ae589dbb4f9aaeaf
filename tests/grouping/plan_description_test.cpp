// SPDX-License-Identifier: Apache-2.0
#include "grouping/plan_description.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/grouping/sample_groups.h"

namespace shampoo::grouping {
namespace {

Plan sample_plan() {
  return plan({{"shampoo", {test::parameter("w", {4, 6}, 4), test::parameter("v", {8, 6}, 4)}},
               {"adam", {test::parameter("scale", {}, 4)}},
               {"shampoo", {test::parameter("b", {7}, 4)}}},
              2);
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

TEST(Describe, CountsEverything) {
  const std::string text = describe(sample_plan());

  expect_contains(text,
                  "3 groups merged into 2 virtual groups: 4 parameters, 80 values, 9 blocks on 2 "
                  "ranks; plan ");
}

TEST(Describe, ListsRecipesGroupsAndParameters) {
  const std::string text = describe(sample_plan());

  expect_contains(text, "virtual group 0\n    shampoo\n");
  expect_contains(text, "virtual group 1\n    adam\n");
  expect_contains(text,
                  "  group  parameters  values  blocks  names\n"
                  "  0               2      72       6  w, v\n"
                  "  2               1       7       2  b\n");
  expect_contains(text, "  1               1       1       1  scale\n");
}

TEST(Describe, ListsStacksByExtent) {
  const std::string text = describe(sample_plan());

  expect_contains(text, "extent  blocks  stacks  highest stack\n");
  expect_contains(text, "\n  4 x 4        3 ");
  expect_contains(text, "\n  4 x 2        3 ");
  expect_contains(text, "\n  3            1 ");
}

TEST(Describe, CountsTheNamesThatItDoesNotList) {
  PlannedGroup group{"a", {}};
  for (const std::string name : {"a", "b", "c", "d", "e", "f", "g", "h"})
    group.parameters.push_back(test::parameter(name, {4}, 4));

  expect_contains(describe(plan({group}, 1)), "a, b, c, d, e, f and 2 more\n");
}

TEST(Describe, TellsBalanceMemoryAndExchange) {
  // Two equal blocks of 16 values, one per rank.
  const Plan made = plan({{"a", {test::parameter("w", {8, 4}, 4)}}}, 2);

  const std::string text = describe(made, {.workspace_bytes = 3072, .header_bytes = 64});

  // cost: 30 * 16 + 2 * (25 * 64 / 10 + 2 * 16 * 4 + 16 * 5); state: 4 * (2 * 4 * 5 + 2 * 16)
  expect_contains(text, "cost     2,432  1,216    1,216        0   1.000    1.000\n");
  expect_contains(text, "bytes    128 B   64 B     64 B        0   1.000    1.000\n");
  expect_contains(text, "state    576 B  288 B    288 B        0   1.000    1.000\n");
  expect_contains(text, "workspace of 3.0 KiB on this rank\n");
  expect_contains(text, "its backend has scratch memory of 0 B\n");
  expect_contains(text,
                  "exchange of 256 B in segments of equal length, for which 0 B were added\n");
}

TEST(Describe, TellsHowLevelRefreshesAre) {
  // Six equal blocks for two ranks and two steps: a rank must refresh two of them in one step.
  const PlannedGroup group{"a", {test::parameter("w", {24, 4}, 4)}, 2};

  const std::string text = describe(plan({group}, 2));

  expect_contains(text,
                  "refreshes in     all   mean  largest  on rank  / mean  / bound  in turn\n");
  expect_contains(text,
                  "2 steps       19,200  4,800    6,400        0   1.333    1.000    1.333\n");
}

TEST(Describe, TellsWhatTheBackendHas) {
  const std::string text =
      describe(sample_plan(),
               {.scratch_bytes = 2048, .host_bytes = 512, .pool_bytes = std::int64_t{3} << 20});

  expect_contains(text,
                  "its backend has scratch memory of 2.0 KiB, 512 B on the host for copies, and "
                  "holds 3.0 MiB in all\n");
}

TEST(Describe, TellsThePaddingOfUnequalSegments) {
  // One block of 64 bytes for two ranks: 64 bytes of header and 64 more on one of them.
  const Plan made = plan({{"a", {test::parameter("w", {4, 4}, 4, 2)}}}, 2);

  const std::string text = describe(made, {.header_bytes = 64});

  // Equal segments: 2 * 128 bytes instead of 192.
  expect_contains(text,
                  "exchange of 192 B; segments of equal length would be 128 B and make it 1.333");
}

TEST(Describe, HoldsForNothing) {
  const std::string text = describe(plan({}, 1));

  expect_contains(
      text, "0 groups merged into 0 virtual groups: 0 parameters, 0 values, 0 blocks on 1 rank;");
  expect_contains(text, "  no exchange on one rank\n");
}

TEST(Describe, KeepsLinesShort) {
  std::vector<PlannedGroup> groups = test::groups_of("vit-b16", 3);
  groups[1].recipe = std::string(500, 'x');
  groups[2].recipe = groups[0].recipe +
                     " with, a, long, list, of, many, options, and, no, end, at, all, "
                     "that, must, be, broken, into, several, lines, here";

  std::istringstream text(describe(plan(groups, 8)));

  int lines = 0;
  for (std::string line; std::getline(text, line); ++lines) EXPECT_LE(line.size(), 120u) << line;
  EXPECT_GT(lines, 20);
}

}  // namespace
}  // namespace shampoo::grouping
