// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/rules/factor_layout.h"
#include "kernels/rules/host_device.h"
#include "kernels/solvers/solver_arguments.h"
#include "kernels/views.h"

namespace shampoo::kernels {

/// A factor as it is unpacked, before it is divided by its size; see Loading. Elements (i, j) have
/// j <= i.
template <typename Real, typename Stored>
struct LoadedFactor {
  const Stored* numbers;
  std::int64_t side;
  bool packed;
  Real scale, shift, by_trace = 1;

  SHAMPOO_BOTH LoadedFactor(const FactorBatch& factors, std::int64_t member, const Loading& loading)
      : numbers(static_cast<const Stored*>(factors.arrays[member])),
        side(factors.side),
        packed(is_packed(factors.layout)),
        scale(static_cast<Real>(loading.scales[factors.first + member])),
        shift(loading.shifts == nullptr
                  ? Real(0)
                  : static_cast<Real>(loading.shifts[factors.first + member])) {}

  SHAMPOO_BOTH Real scaled(std::int64_t i, std::int64_t j) const {
    return static_cast<Real>(numbers[triangle_row(packed, side, i) + j]) * scale;
  }
  SHAMPOO_BOTH Real at(std::int64_t i, std::int64_t j) const {
    const Real x = scaled(i, j) * by_trace;
    return i == j ? x + shift : x;
  }
};

}  // namespace shampoo::kernels
