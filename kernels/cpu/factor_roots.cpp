// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/matrix_numbers.h"
#include "kernels/cpu/solver_tasks.h"
#include "kernels/cpu/triangles.h"
#include "kernels/rules/factor_layout.h"
#include "kernels/solvers/solver_formulas.h"

namespace shampoo::kernels {

namespace {

template <typename Real, typename Stored>
void unpack_factor(LoadedFactor<Real, Stored> factor, const Loading& loading, std::int64_t row,
                   Real* a) {
  const std::int64_t n = factor.side;
  if (loading.trace_exponent != 0) {
    double trace = 0;
    for (std::int64_t i = 0; i < n; ++i) trace += static_cast<double>(factor.scaled(i, i));
    factor.divide_by_trace(trace, loading.floors[row], loading.trace_exponent);
  }
  double inverse = 1;
  if (loading.sizes != nullptr) {
    double largest = 0;
    for (std::int64_t i = 0; i < n; ++i)
      largest = larger(largest, std::abs(static_cast<double>(factor.at(i, i))));
    loading.sizes[row] = Loading::size_of(largest);
    inverse = 1 / loading.sizes[row];
  }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      a[i * n + j] = static_cast<Real>(static_cast<double>(factor.at(i, j)) * inverse);
  mirror_lower(a, n);
}

/// A root's dense matrix X, times a factor. The mean of both triangles: iterations leave X
/// symmetric up to rounding only.
template <typename Stored, typename Real>
struct ScaledRoot {
  const Real* x;
  std::int64_t n;
  Real factor;

  bool is_finite() const { return is_finite_in<Stored>(x, n * n, factor); }
  Stored at(std::int64_t i, std::int64_t j) const {
    constexpr Real half = Real(0.5);
    return static_cast<Stored>(half * (factor * x[i * n + j]) + half * (factor * x[j * n + i]));
  }
};

/// Returns whether all elements are finite in the root's type; nothing is written if not.
template <typename Stored, typename Real>
bool pack_root(const ScaledRoot<Stored, Real>& root, Stored* pair) {
  if (!root.is_finite()) return false;
  const std::int64_t n = root.n;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) pair[i * (n + 1) + j + 1] = root.at(i, j);
  return true;
}

/// The same for an array with a root in float16.
template <typename Stored, typename Real>
bool pack_float16_root(const ScaledRoot<Stored, Real>& root, Stored* array) {
  if (!root.is_finite()) return false;
  const std::int64_t n = root.n;
  const auto scale = [&](std::int64_t i) { return root_scale(root.at(i, i)); };
  const auto each = [&](const auto& take) {
    for (std::int64_t i = 0; i < n; ++i) {
      const Stored d_i = scale(i);
      for (std::int64_t j = 0; j <= i; ++j) take(i, j, scaled_root(root.at(i, j), d_i, scale(j)));
    }
  };
  bool finite = true;
  each([&](std::int64_t, std::int64_t, Float16 c) { finite = finite && is_finite_number(c); });
  if (!finite) return false;

  for (std::int64_t i = 0; i < n; ++i) scales_of(array, n)[i] = scale(i);
  Float16* const to = float16_root_of(array, n);
  each([&](std::int64_t i, std::int64_t j, Float16 c) { to[triangle_row(true, n, i) + j] = c; });
  return true;
}

}  // namespace

void CpuBackend::unpack_factors(std::span<const FactorBatch> factors, const Loading& loading,
                                std::span<const SquareMatrixBatch> a) {
  for_each_matrix(workers_, factors, 2, 4, [&](std::size_t g, std::int64_t member, Scratch&) {
    const FactorBatch& pairs = factors[g];
    with_real(a[g].type, [&]<typename Real>(Real*) {
      with_real(pairs.type, [&]<typename Stored>(Stored*) {
        unpack_factor(LoadedFactor<Real, Stored>(pairs, member, loading), loading,
                      pairs.first + member, matrix_of<Real>(a[g], member));
      });
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
      const Real factor = static_cast<Real>(scaling.factor(row));
      with_real(pairs.type, [&]<typename Stored>(Stored*) {
        const ScaledRoot<Stored, Real> root{matrix_of<Real>(x[g], member), pairs.side, factor};
        Stored* const array = static_cast<Stored*>(pairs.arrays[member]);
        const bool packs = pairs.layout == FactorLayout::with_float16_root
                               ? pack_float16_root(root, array)
                               : pack_root(root, array);
        if (!packs) flag = non_finite_root;
      });
    });
  });
}

}  // namespace shampoo::kernels
