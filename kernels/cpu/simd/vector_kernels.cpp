// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels {

VectorLevel best_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const auto avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512) return x86_v4_level();
  if (avx2) return x86_v3_level();
#endif
  return base_level();
}

}  // namespace shampoo::kernels
