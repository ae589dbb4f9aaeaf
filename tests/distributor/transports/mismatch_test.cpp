// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/transports/mismatch.h"

#include <gtest/gtest.h>

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

class ThreadMismatch : public testing::TestWithParam<Mismatch> {};

TEST_P(ThreadMismatch, IsAnErrorOnAllRanks) {
  run_ranks(3, [&](Communicator& ranks) { EXPECT_EQ(check_mismatch(ranks, GetParam(), 30s), ""); });
}

INSTANTIATE_TEST_SUITE_P(All, ThreadMismatch,
                         testing::ValuesIn(mismatches().begin(), mismatches().end()),
                         [](const auto& mismatch) { return mismatch.param.name; });

}  // namespace
}  // namespace shampoo::test
