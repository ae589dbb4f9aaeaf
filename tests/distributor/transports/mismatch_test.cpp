// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/transports/mismatch.h"

#include <gtest/gtest.h>

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

TEST(ThreadMismatch, IsAnErrorOnAllRanks) {
  for (const Mismatch& mismatch : mismatches())
    run_ranks(3, [&](Communicator& ranks) {
      EXPECT_EQ(check_mismatch(ranks, mismatch, 30s), "") << mismatch.name;
    });
}

}  // namespace
}  // namespace shampoo::test
