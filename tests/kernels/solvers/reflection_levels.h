// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "kernels/cpu/blas/reflections.h"
#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::test {

/// Of every level of the instruction set that this processor has.
inline std::vector<kernels::Reflections> reflection_levels() {
  std::vector<kernels::Reflections> levels = {kernels::base_reflections()};
#if defined(__x86_64__)
  const std::string_view best = kernels::best_level().name;
  if (best != kernels::base_level().name) levels.push_back(kernels::x86_v3_reflections());
  if (best == kernels::x86_v4_level().name) levels.push_back(kernels::x86_v4_reflections());
#endif
  return levels;
}

}  // namespace shampoo::test
