// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/floating_mode.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/threads/pool.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"
#include "tests/support/cpu_kernels.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace shampoo::test {
namespace {

using kernels::Pool;

#if defined(__x86_64__)
constexpr unsigned flush_bits = 0x8040;

TEST(FloatingMode, CountsDenormalsAsZeroInTasksAndComesBack) {
  const unsigned before = _mm_getcsr();
  Pool pool(3);
  for (const std::int64_t grain : {1, 100}) {
    std::atomic<int> wrong = 0;
    pool.run(100, grain, [&](std::int64_t, int) {
      if ((_mm_getcsr() & flush_bits) != flush_bits) ++wrong;
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(_mm_getcsr(), before);
  }
  EXPECT_THROW(pool.run(100, 1, [](std::int64_t, int) { throw std::logic_error("planted"); }),
               std::logic_error);
  EXPECT_EQ(_mm_getcsr(), before);
}

TEST(FloatingMode, OfTheCallerIsKeptByABackend) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  Table t({{.shape = {300, 300},
            .mode = kernels::Mode::unpreconditioned,
            .coefficients = {.step = 0x1p-10}}},
          Type::float32);
  write(t.direction.data(), Type::float32, 0x1p-120);
  for (const unsigned mode : {_mm_getcsr() & ~flush_bits, _mm_getcsr() | flush_bits}) {
    _mm_setcsr(mode);
    backend->update(t.phase(), {.direction = t.direction.data(), .segment = t.segment.data()});
    EXPECT_EQ(_mm_getcsr() & ~0x3fu, mode & ~0x3fu);
    // 2^-130 is denormal.
    EXPECT_EQ(read(t.segment.data(), Type::float32), 0);
  }
  _mm_setcsr(_mm_getcsr() & ~flush_bits);
}

TEST(FloatingMode, MasksExceptionsInTasks) {
  constexpr unsigned masks = 0x1f80, invalid = 0x0080;
  const unsigned before = _mm_getcsr();
  const unsigned unmasked = before & ~invalid;
  Pool pool(3);
  for (const std::int64_t grain : {1, 100}) {
    std::atomic<int> wrong = 0;
    _mm_setcsr(unmasked);
    pool.run(100, grain, [&](std::int64_t, int) {
      if ((_mm_getcsr() & masks) != masks) ++wrong;
    });
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(after, unmasked);
  }
}

TEST(FloatingMode, ThatTrapsLetsABackendSeeNumbersThatAreNotFinite) {
  constexpr unsigned invalid_zero_overflow = 0x0680;
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  Table t({{.shape = {3}}, {.shape = {200, 300}}}, Type::float64, {.tile_elements = 1000});
  t.gradients[1].write(0, HUGE_VAL);
  t.direction_norms = {HUGE_VAL, 1};
  t.grafting_norms = {1, 1};
  kernels::NonFiniteDirections count;
  kernels::UpdatePass pass = t.update_pass(kernels::AveragingRule::none);
  pass.non_finite = &count;
  const double one = 1;
  std::vector<double> scales(2);
  kernels::ScanResult result;

  const unsigned before = _mm_getcsr();
  _mm_setcsr(before & ~invalid_zero_overflow);
  backend->scan(t.elements(), &one, true, &result);
  backend->scale_tensors(t.elements(), 1, &one, scales.data());
  backend->update(t.phase(), pass);
  _mm_setcsr(before);

  EXPECT_EQ(result.first_bad, 1);
  EXPECT_EQ(result.proceed, 0);
  EXPECT_EQ(count.blocks, 1);
}
#endif

TEST(FloatingMode, RoundsToTheNearestInTasksAndComesBack) {
  Pool pool(3);
  for (const int mode : {FE_UPWARD, FE_TOWARDZERO})
    for (const std::int64_t grain : {1, 100}) {
      std::atomic<int> wrong = 0;
      std::fesetround(mode);
      pool.run(100, grain, [&](std::int64_t, int) {
        if (std::fegetround() != FE_TONEAREST) ++wrong;
      });
      const int after = std::fegetround();
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(after, mode);
    }
}

TEST(FloatingMode, OfTheCallerDoesNotRoundSums) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  Table t({{.shape = {200, 300}}}, Type::float64, {.tile_elements = 1000});
  const double one = 1;
  kernels::ScanResult result, up;
  backend->scan(t.elements(), &one, true, &result);
  std::fesetround(FE_UPWARD);
  backend->scan(t.elements(), &one, true, &up);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(up.squared_norm, result.squared_norm);
}

}  // namespace
}  // namespace shampoo::test
