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

  // The header ends at 10; the matrix of 96 bytes is first and starts at 16, the three halves
  // follow it, and the next multiple of 16 after 118 is 128.
  const std::vector<std::vector<std::int64_t>> expected = {{112, 16}, {128}};
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
        EXPECT_EQ(start % block_alignment, 0);
        EXPECT_GE(start, layout.begins[block.owner] + header);
        EXPECT_LE(end, layout.begins[block.owner + 1]);
        spans.emplace_back(start, end);
      }
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first);

    // Padded where that adds at most 4 %.
    const std::int64_t unpadded = layout.begins.back() - layout.padding;
    const std::int64_t equal = layout.longest() * made.ranks;
    const bool pays = 100 * equal <= 104 * unpadded;
    EXPECT_EQ(layout.equally_long(), pays);
    EXPECT_EQ(layout.begins.back(), pays ? equal : unpadded);
  }
}

TEST(Segments, OfModelsAreEquallyLong) {
  for (const char* const model : {"gpt2-124m", "vit-b16", "llama-1.3b"})
    for (const int ranks : {2, 8}) {
      const Segments layout = segments(plan(test::groups_of(model, 3), ranks), 64);
      EXPECT_TRUE(layout.equally_long()) << model << " on " << ranks << " ranks";
      EXPECT_LE(100 * layout.padding, 4 * (layout.begins.back() - layout.padding));
    }
}

TEST(Segments, AreNotPaddedForABlockThatNoneCanMatch) {
  const Plan made = plan({{"a", {test::parameter("w", {8, 8}, 8, 2)}}}, 2);

  const Segments layout = segments(made, 64);

  EXPECT_EQ(layout.begins, (std::vector<std::int64_t>{0, 64 + 256, 64 + 256 + 64}));
  EXPECT_EQ(layout.padding, 0);
  EXPECT_FALSE(layout.equally_long());
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
