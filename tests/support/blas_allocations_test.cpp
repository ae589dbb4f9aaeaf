// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/blas/blas.h"
#include "tests/support/allocations.h"

namespace shampoo::test {
namespace {

TEST(AllocationCounter, SeesWhatBlasGetsInItsFirstCall) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer allocates in its own way";
  const int n = 65;
  const std::vector<float> a(n * n, 1.0f);
  std::vector<float> c(n * n);

  AllocationCounter first;
  kernels::blas::gemm('N', 'N', n, n, n, 1.0f, a.data(), n, a.data(), n, 0.0f, c.data(), n);

  EXPECT_GT(first.count().total(), 0);
  EXPECT_EQ(c.back(), 65.0f);
}

}  // namespace
}  // namespace shampoo::test
