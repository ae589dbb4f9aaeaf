// SPDX-License-Identifier: Apache-2.0
#include "grouping/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>

#include "tests/grouping/sample_groups.h"

namespace shampoo::grouping {
namespace {

TEST(Segments, OfNothingAreHeaders) {
  const Segments layout = segments(plan({}, 3), 24);

  EXPECT_EQ(layout.begins, (std::vector<std::int64_t>{0, 64, 128, 192}));
  EXPECT_TRUE(layout.blocks.empty());
}

TEST(Segments, FollowTheFlatRunsOfAllVirtualGroups) {
  PlannedParameter half = test::parameter("half", {3}, 8);
  half.element_bytes = 2;
  const Plan made = plan({{"a", {half, test::parameter("matrix", {4, 6}, 8, 2)}},
                          {"b", {test::parameter("last", {5}, 8)}}},
                         1);

  const Segments layout = segments(made, 10);

  // The header ends at 10; the matrix of 96 bytes is first and starts at a multiple of 4, the
  // three halves follow it, and the next multiple of 4 after 114 is 116.
  const std::vector<std::vector<std::int64_t>> expected = {{108, 12}, {116}};
  EXPECT_EQ(layout.blocks, expected);
  EXPECT_EQ(layout.begins, (std::vector<std::int64_t>{0, 192}));
}

TEST(Segments, OfRandomPlansNeverOverlap) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const auto header = static_cast<std::int64_t>(random() % 100);
    const Plan made = plan(test::random_groups(random, "p"), 1 + static_cast<int>(random() % 5));

    const Segments layout = segments(made, header);

    std::vector<std::pair<std::int64_t, std::int64_t>> spans;
    for (int r = 0; r < made.ranks; ++r) {
      EXPECT_EQ(layout.begins[r] % segment_alignment, 0);
      spans.emplace_back(layout.begins[r], layout.begins[r] + header);
    }
    for (int v = 0; v < static_cast<int>(made.blocks.size()); ++v)
      for (std::size_t b = 0; b < made.blocks[v].size(); ++b) {
        const Block& block = made.blocks[v][b];
        const std::int64_t element = made.parameter(v, block).element_bytes;
        const std::int64_t start = layout.blocks[v][b];
        const std::int64_t end = start + element * numel(made.block_work(v, block).box.extent);
        EXPECT_EQ(start % element, 0);
        EXPECT_GE(start, layout.begins[block.owner] + header);
        EXPECT_LE(end, layout.begins[block.owner + 1]);
        spans.emplace_back(start, end);
      }
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first);
  }
}

TEST(Segments, RefuseWhatLeavesTheRange) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  PlannedParameter parameter = test::parameter("wide", {4}, 8);
  parameter.element_bytes = huge / 4;

  EXPECT_THROW(segments(plan({}, 1), -1), std::invalid_argument);
  EXPECT_THROW(segments(plan({}, 2), huge), std::invalid_argument);
  EXPECT_THROW(segments(plan({{"a", {parameter}}}, 1), 0), std::invalid_argument);
}

}  // namespace
}  // namespace shampoo::grouping
