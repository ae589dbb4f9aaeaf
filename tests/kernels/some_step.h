// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/table.h"

/// A step of the kernels for tests of its bits.
namespace shampoo::test {

inline kernels::Coefficients some_coefficients(std::size_t i) {
  return {.l2 = i % 2 == 0 ? 0.0 : 0.25,
          .factor_keep = 0.9,
          .factor_add = 0.1 + static_cast<double>(i) / 64,
          .first_weight = 0.1,
          .filter_weight = 0.2,
          .filter_scale = 1.5,
          .grafting = {.keep = 0.9, .add = 0.1, .epsilon = 1e-8},
          .decay = 0.1,
          .momentum = 0.9,
          .step = -1e-3};
}

inline TensorCase some_case(const std::vector<std::int64_t>& shape, std::size_t i) {
  constexpr Layout layouts[] = {Layout::packed, Layout::shifted, Layout::padded, Layout::spread};
  constexpr Type types[] = {Type::float32, Type::float64, Type::float32, Type::bfloat16};
  return {.shape = shape,
          .value = types[i % 4],
          .gradient = types[i % 4],
          .layout = layouts[i % 4],
          .wire_type = types[i % 4],
          .is_value = false,
          .mode = kernels::Mode::preconditioned,
          .coefficients = some_coefficients(i),
          .seed = i + 1};
}

/// Roots of all factors through the primitives of an eigendecomposition.
inline void refresh(kernels::Backend& backend, Table& t) {
  std::vector<kernels::FactorBatch> pairs;
  std::vector<kernels::SquareMatrixBatch> a, x;
  std::vector<std::vector<void*>> arrays;
  std::int64_t rows = 0;
  const std::size_t element = size_of(t.arithmetic);
  std::vector<Bytes> memory;
  for (const kernels::Stack& stack : t.stacks)
    for (std::size_t k = 0; k < stack.extent.size(); ++k) {
      const std::int64_t n = stack.extent[k];
      auto& list = arrays.emplace_back();
      for (std::int64_t i = 0; i < stack.count; ++i)
        list.push_back(static_cast<std::byte*>(stack.factors[k]) +
                       static_cast<std::size_t>(i * n * (n + 1)) * element);
      const auto bytes = static_cast<std::size_t>(stack.count * n * n) * element;
      for (auto* group : {&a, &x}) {
        memory.emplace_back(bytes);
        group->push_back({t.arithmetic, n, stack.count, rows, memory.back().data()});
      }
      memory.emplace_back(static_cast<std::size_t>(stack.count * n) * element);
      a.back().values = memory.back().data();
      pairs.push_back({t.arithmetic, n, stack.count, rows, list.data()});
      rows += stack.count;
    }
  const auto count = static_cast<std::size_t>(rows);
  const std::vector<double> scales(count, 1.25), shifts(count, 3.0), epsilons(count, 3.0),
      exponents(count, 0.25);
  std::vector<std::int32_t> failed(count);
  backend.unpack_factors(pairs, {.scales = scales.data(), .shifts = shifts.data()}, a);
  backend.eigh(a, kernels::Eigensolver::divide_and_conquer, failed.data());
  backend.root_spectrum(a, {.epsilons = epsilons.data(), .exponents = exponents.data()});
  backend.reconstruct(a, x);
  backend.pack_roots(x, {}, pairs, failed.data());
}

}  // namespace shampoo::test
