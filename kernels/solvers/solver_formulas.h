// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/rules/factor_layout.h"
#include "kernels/rules/host_device.h"
#include "kernels/solvers/solver_arguments.h"
#include "kernels/views.h"

/// Formulas of solvers that all backends share.
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
  /// A <- A / max(tr A, floor)^exponent; zeros remain.
  SHAMPOO_BOTH void divide_by_trace(double trace, double floor, double exponent) {
    const double size = trace < floor ? floor : trace;
    if (size != 0) by_trace = static_cast<Real>(pow(size, -exponent));
  }
};

/// Damping of one matrix: M = weight (A + shift I).
struct DampingShift {
  double weight = 1, shift = 1;
};

/// From |A A|_F; sets the row's `clamped` and scale. See Damping.
SHAMPOO_BOTH inline DampingShift damping_shift(const Damping& damping, std::int64_t row,
                                               double frobenius) {
  const double epsilon = damping.epsilons[row];
  const double largest = (1 + 0x1p-10) * sqrt(frobenius);
  if (largest == 0) {
    damping.clamped[row] = epsilon > 0 ? 0 : 1;
    if (epsilon > 0) damping.scales[row] = epsilon;
    return {};
  }

  const double absolute = epsilon / damping.scales[row];
  const double relative = largest / damping.kappa_max;
  damping.clamped[row] = relative > absolute ? 1 : 0;
  DampingShift by;
  by.shift = relative > absolute ? relative : absolute;
  // The least power of two above both; a number that is not finite stays.
  const double both = largest + by.shift;
  by.weight = both - both == 0 ? ldexp(1.0, -ilogb(both) - 1) : both;
  damping.scales[row] /= by.weight;
  return by;
}

/// M = weight A + shift I ; N = of_squared S + of_a A + of_identity I, which is
/// n0 I + n1 M + n2 M^2: M^2 = weight^2 (S + 2 by.shift A + by.shift^2 I).
template <typename Real>
struct DampingWeights {
  Real weight, shift, of_squared, of_a, of_identity;

  SHAMPOO_BOTH DampingWeights(const DampingShift& by, const std::array<double, 3>& polynomial) {
    const double n0 = polynomial[0], n1 = polynomial[1], n2 = polynomial[2];
    const double square = n2 * by.weight * by.weight, weighted_shift = by.weight * by.shift;
    weight = static_cast<Real>(by.weight);
    shift = static_cast<Real>(weighted_shift);
    of_squared = static_cast<Real>(square);
    of_a = static_cast<Real>(n1 * by.weight + 2 * square * by.shift);
    of_identity = static_cast<Real>(n0 + (n1 + n2 * weighted_shift) * weighted_shift);
  }
};

}  // namespace shampoo::kernels
