// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/allocations.h"

extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace shampoo::test {
namespace {

TEST(AllocationCounter, SeesWhatBlasGetsInItsFirstCall) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer allocates in its own way";
  const int n = 65;
  const float one = 1, zero = 0;
  const std::vector<float> a(n * n, 1.0f);
  std::vector<float> c(n * n);

  AllocationCounter first;
  sgemm_("N", "N", &n, &n, &n, &one, a.data(), &n, a.data(), &n, &zero, c.data(), &n);

  EXPECT_GT(first.count().total(), 0);
  EXPECT_EQ(c.back(), 65.0f);
}

}  // namespace
}  // namespace shampoo::test
