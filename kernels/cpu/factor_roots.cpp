// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/solver_tasks.h"
#include "kernels/cpu/triangles.h"
#include "kernels/rules/factor_layout.h"

namespace shampoo::kernels {

namespace {

template <typename Stored, typename Real>
void unpack_factor(const Stored* factor, bool packed, std::int64_t n, Real scale, Real* a) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Stored* const row = factor + triangle_row(packed, n, i);
    for (std::int64_t j = 0; j <= i; ++j) a[i * n + j] = static_cast<Real>(row[j]) * scale;
  }
  mirror_lower(a, n);
}

/// A <- A max(trace(A), floor)^-exponent
template <typename Real>
void scale_by_trace(Real* a, std::int64_t n, double floor, double exponent) {
  double trace = 0;
  for (std::int64_t i = 0; i < n; ++i) trace += static_cast<double>(a[i * n + i]);
  const Real factor = static_cast<Real>(std::pow(std::max(trace, floor), -exponent));
  for (std::int64_t i = 0; i < n * n; ++i) a[i] *= factor;
}

/// The mean of both triangles: iterations leave X symmetric up to rounding only.
template <typename Stored, typename Real>
Stored mean(const Real* x, std::int64_t n, std::int64_t i, std::int64_t j) {
  constexpr Real half = Real(0.5);
  return static_cast<Stored>(half * x[i * n + j] + half * x[j * n + i]);
}

/// Returns whether all elements are finite in the root's type; nothing is written if not.
template <typename Real, typename Stored>
bool pack_root(const Real* x, std::int64_t n, Stored* pair) {
  if (!is_finite(x, n * n)) return false;
  if constexpr (sizeof(Stored) < sizeof(Real))
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i; j < n; ++j)
        if (!std::isfinite(mean<Stored>(x, n, i, j))) return false;

  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) pair[i * (n + 1) + j + 1] = mean<Stored>(x, n, i, j);
  return true;
}

/// The same for an array with a root in float16.
template <typename Real, typename Stored>
bool pack_float16_root(const Real* x, std::int64_t n, Stored* array) {
  if (!is_finite(x, n * n)) return false;
  const auto scale = [&](std::int64_t i) { return root_scale(mean<Stored>(x, n, i, i)); };
  const auto each = [&](const auto& take) {
    for (std::int64_t i = 0; i < n; ++i) {
      const Stored d_i = scale(i);
      for (std::int64_t j = 0; j <= i; ++j)
        take(i, j, scaled_root(mean<Stored>(x, n, i, j), d_i, scale(j)));
    }
  };
  bool finite = true;
  each([&](std::int64_t, std::int64_t, Float16 c) { finite = finite && is_finite_number(c); });
  if (!finite) return false;

  for (std::int64_t i = 0; i < n; ++i) scales_of(array, n)[i] = scale(i);
  Float16* const root = float16_root_of(array, n);
  each([&](std::int64_t i, std::int64_t j, Float16 c) { root[triangle_row(true, n, i) + j] = c; });
  return true;
}

}  // namespace

void CpuBackend::unpack_factors(std::span<const FactorBatch> factors, const Loading& loading,
                                std::span<const SquareMatrixBatch> a) {
  for_each_matrix(workers_, factors, 2, 4, [&](std::size_t g, std::int64_t member, Scratch&) {
    const FactorBatch& pairs = factors[g];
    const std::int64_t row = pairs.first + member, n = pairs.side;
    with_real(a[g].type, [&]<typename Real>(Real*) {
      Real* const to = matrix_of<Real>(a[g], member);
      with_real(pairs.type, [&]<typename Stored>(Stored*) {
        unpack_factor(static_cast<const Stored*>(pairs.arrays[member]), is_packed(pairs.layout), n,
                      static_cast<Real>(loading.scales[row]), to);
      });
      if (loading.trace_exponent != 0)
        scale_by_trace(to, n, loading.floors[row], loading.trace_exponent);
      // A <- A + shift I
      const Real shift = static_cast<Real>(loading.shifts[row]);
      for (std::int64_t i = 0; i < n; ++i) to[i * (n + 1)] += shift;
    });
  });
}

void CpuBackend::pack_roots(std::span<const SquareMatrixBatch> x, const RootScaling& scaling,
                            std::span<const FactorBatch> roots, std::int32_t* failed) {
  for_each_matrix(workers_, roots, 2, 4, [&](std::size_t g, std::int64_t member, Scratch&) {
    const FactorBatch& pairs = roots[g];
    const std::int64_t row = pairs.first + member;
    std::int32_t& flag = failed[row];
    if (flag != 0) return;
    with_real(x[g].type, [&]<typename Real>(Real*) {
      Real* const root = matrix_of<Real>(x[g], member);
      if (scaling.scales != nullptr) {
        const Real factor = static_cast<Real>(std::pow(scaling.scales[row], scaling.exponent));
        for (std::int64_t i = 0; i < pairs.side * pairs.side; ++i) root[i] *= factor;
      }
      with_real(pairs.type, [&]<typename Stored>(Stored*) {
        Stored* const array = static_cast<Stored*>(pairs.arrays[member]);
        const bool packs = pairs.layout == FactorLayout::with_float16_root
                               ? pack_float16_root(root, pairs.side, array)
                               : pack_root(root, pairs.side, array);
        if (!packs) flag = non_finite_root;
      });
    });
  });
}

}  // namespace shampoo::kernels
