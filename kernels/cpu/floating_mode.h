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
  FloatingMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | flush_to_zero | denormals_are_zero);
#endif
  }
  ~FloatingMode() { std::fesetenv(&saved_); }
  FloatingMode(const FloatingMode&) = delete;
  FloatingMode& operator=(const FloatingMode&) = delete;

 private:
  static constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
  std::fenv_t saved_;
};

}  // namespace shampoo::kernels
