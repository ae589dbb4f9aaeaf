// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace shampoo::kernels {

/// While it lives, this thread rounds to the nearest, traps on no exception, and counts denormal
/// operands and results as zero: arithmetic on them is more than ten times slower. The caller's
/// mode comes back at the end.
class FloatingMode {
 public:
#if defined(__x86_64__)
  FloatingMode() : saved_(_mm_getcsr()) {
    // BLAS has x87 code, too. Its whole environment takes ten times as long to change.
    unsigned short x87 = 0;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    changes_x87_ = x87 != default_x87;
    if (changes_x87_) {
      std::fegetenv(&caller_);
      std::fesetenv(FE_DFL_ENV);
    }
    _mm_setcsr(default_sse | flush_to_zero | denormals_are_zero);
  }
  ~FloatingMode() {
    if (changes_x87_) std::fesetenv(&caller_);
    _mm_setcsr(saved_);
  }
#else
  FloatingMode() {
    std::fegetenv(&caller_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatingMode() { std::fesetenv(&caller_); }
#endif
  FloatingMode(const FloatingMode&) = delete;
  FloatingMode& operator=(const FloatingMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned default_sse = 0x1f80, flush_to_zero = 0x8000,
                            denormals_are_zero = 0x0040;
  static constexpr unsigned short default_x87 = 0x037f;
  unsigned saved_;
  bool changes_x87_ = false;
#endif
  std::fenv_t caller_;
};

}  // namespace shampoo::kernels
