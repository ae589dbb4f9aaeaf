// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/kernels/table.h"

namespace shampoo::test {

inline constexpr Type all_types[] = {Type::float64, Type::float32, Type::bfloat16, Type::float16};
inline constexpr Layout all_layouts[] = {Layout::packed, Layout::padded, Layout::spread,
                                         Layout::transposed, Layout::shifted};
inline constexpr kernels::Mode all_modes[] = {
    kernels::Mode::preconditioned, kernels::Mode::unpreconditioned, kernels::Mode::absent};

inline kernels::Coefficients some_coefficients(std::size_t i) {
  return {.gradient_sign = i % 5 == 3 ? -1.0 : 1.0,
          .l2 = i % 3 == 0 ? 0.0 : 0.3,
          .first_weight = i % 4 == 1   ? 1.0
                          : i % 4 == 2 ? 0.7
                                       : 0.1,
          .filter_weight = i % 2 == 0 ? 0.1 : 0.6,
          .filter_scale = 1.7,
          .preconditioner = {.keep = 0.8, .add = 0.2, .scale = 1.1, .epsilon = 1e-4},
          .grafting = {.keep = 0.9, .add = 0.1, .scale = 1.3, .epsilon = 1e-3},
          .decay = i % 2 == 0 ? 0.0 : 0.2,
          .momentum = i % 6 == 4 ? 0.0 : 0.8,
          .damp = 0.75,
          .step = -0.01,
          .iterate_keep = i % 3 == 0 ? 1.0 : 0.97,
          .iterate_pull = i % 5 == 0 ? 1.0 : 0.3,
          .iterate_weight = 0.6};
}

/// All pairs of value and gradient types, with layouts, modes and awkward shapes in turn.
inline std::vector<TensorCase> all_mixes() {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {}, {1}, {1031}, {7, 1}, {1, 13}, {37, 41}, {3, 5, 7}, {2, 3, 4, 5}, {513}, {17, 600}};
  std::vector<TensorCase> cases;
  std::size_t i = 0;
  for (const Type value : all_types)
    for (const Type gradient : all_types)
      for (int repeat = 0; repeat < 3; ++repeat, ++i)
        cases.push_back({shapes[i % shapes.size()], value, gradient, all_layouts[i % 5],
                         all_types[i % 4], i % 7 == 0, all_modes[(i / 2) % 3], some_coefficients(i),
                         i + 1});
  return cases;
}

}  // namespace shampoo::test
