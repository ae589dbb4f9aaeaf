// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

class StepAt : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    require(GetParam());
    if (!IsSkipped() && !HasFatalFailure()) backend = backend_with_host_arrays(GetParam());
  }

  std::unique_ptr<kernels::Backend> backend;
};

TEST_P(StepAt, IsCountedAndSkippedUnlessItIsPermittedAndAbleToDoWhatItMust) {
  struct Case {
    kernels::StepPermit permit;
    std::int32_t offers, proceed, first_bad;
  };
  const std::vector<Case> cases = {
      {{.permitted = 1, .needs = 0}, 0, 1, 3},
      {{.permitted = 1, .needs = 0}, 5, 1, 3},
      {{.permitted = 1, .needs = 5}, 7, 1, 3},
      {{.permitted = 1, .needs = 5}, 4, 0, kernels::needs_refresh},
      {{.permitted = 0, .needs = 5}, 5, 0, 3},
      {{.permitted = 0, .needs = 5}, 2, 0, kernels::needs_refresh},
  };
  kernels::StepRecords records;
  records.runs.count = 40;
  for (const Case& c : cases) {
    records.scan = {.proceed = 1, .first_bad = 3, .squared_norm = 2.5};
    records.directions = {.blocks = 3, .first_tensor = 1};
    backend->admit(&c.permit, c.offers, {}, &records);
    EXPECT_EQ(records.directions.blocks, 0);
    EXPECT_EQ(records.directions.first_tensor, -1);
    EXPECT_EQ(records.scan.proceed, c.proceed);
    EXPECT_EQ(records.scan.first_bad, c.first_bad);
    EXPECT_EQ(records.scan.squared_norm, 2.5);
  }
  EXPECT_EQ(records.runs.count, 46);

  records.scan = {.proceed = 0};
  const kernels::StepPermit any;
  backend->admit(&any, 0, {}, &records);
  EXPECT_EQ(records.scan.proceed, 0);
}

TEST_P(StepAt, RunsAGenerationOnce) {
  kernels::StepRecords records;
  const auto proceeds = [&](std::int64_t generation) {
    const kernels::StepPermit permit{.generation = generation};
    records.scan = {};
    backend->admit(&permit, 0, {}, &records);
    return records.scan.proceed;
  };
  EXPECT_EQ(proceeds(0), 1);
  EXPECT_EQ(proceeds(0), 1);
  EXPECT_EQ(proceeds(7), 1);
  EXPECT_EQ(proceeds(7), 0);
  EXPECT_EQ(proceeds(7), 0);
  EXPECT_EQ(proceeds(8), 1);
  EXPECT_EQ(records.runs.count, 4);
  EXPECT_EQ(records.runs.repeated, 2);
  EXPECT_EQ(records.runs.last_generation, 8);
}

/// Records of 5 words: [1, 3) must be equal, word 4 must not be 0. Word 0 may differ, and what lies
/// between the records.
struct Array {
  explicit Array(int count) {
    std::int64_t end = 0;
    for (int r = 0; r < count; ++r) {
      begins.push_back(end + 4 * (r % 3));
      end = begins.back() + 20;
    }
    words.assign(static_cast<std::size_t>(end) / 4, 0xabcdu);
    for (int r = 0; r < count; ++r) {
      const std::uint32_t content[] = {1000u + static_cast<unsigned>(r), 17, 0x80000000u,
                                       static_cast<unsigned>(r), 1u + static_cast<unsigned>(r)};
      std::memcpy(record(r), content, sizeof(content));
    }
  }
  std::uint32_t* record(int r) { return words.data() + begins[static_cast<std::size_t>(r)] / 4; }
  kernels::RecordArray records() const {
    return {.array = words.data(),
            .begins = begins.data(),
            .count = static_cast<std::int64_t>(begins.size()),
            .bytes = 20,
            .first_equal = 4,
            .last_equal = 12,
            .flag = 16};
  }

  std::vector<std::int64_t> begins;
  std::vector<std::uint32_t> words;
};

TEST_P(StepAt, ComparesRecordsAndGathersThem) {
  for (const int count : {1, 2, 3, 131}) {
    Array array(count);
    const auto compare = [&](std::int32_t proceed) {
      std::vector<std::uint32_t> gathered(static_cast<std::size_t>(count) * 5);
      backend->compare(array.records(), gathered.data(), &proceed);
      for (int r = 0; r < count; ++r)
        EXPECT_EQ(std::memcmp(gathered.data() + r * 5, array.record(r), 20), 0) << r;
      return proceed;
    };
    EXPECT_EQ(compare(1), 1);
    EXPECT_EQ(compare(0), 0) << "never sets the flag";
    for (const int r : {0, count / 2, count - 1}) {
      for (const int word : {1, 2}) {
        array.record(r)[word] ^= 0x80000000u;
        EXPECT_EQ(compare(1), count == 1 ? 1 : 0) << r;
        array.record(r)[word] ^= 0x80000000u;
      }
      const std::uint32_t flag = std::exchange(array.record(r)[4], 0);
      EXPECT_EQ(compare(1), 0) << r;
      array.record(r)[4] = flag;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Places, StepAt, ::testing::ValuesIn(all_places),
                         [](const auto& place) { return name_of(place.param); });

}  // namespace
}  // namespace shampoo::test
