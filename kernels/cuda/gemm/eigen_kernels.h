// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/launch/batch.h"
#include "kernels/cuda/launch/reduce.h"
#include "kernels/facets.h"
#include "kernels/solvers/spectrum_rule.h"

namespace shampoo::kernels::cuda {

/// flag <- 1 where an element is not finite; flags count matrices in the order of the batch, from
/// 0. One block of threads per part of rows.
struct FlagMatrices {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<MatrixGroup> batch;
  std::int32_t* flags = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// Of Newton and Schulz. They take singular values of 0.024 of the largest row sum's root to 1:
/// those of 2000 vectors of which any two have a product of 0.44. Even: the last is where the
/// first was.
inline constexpr int orthogonalizing_steps = 14;
static_assert(orthogonalizing_steps % 2 == 0);

/// A matrix of a batch, and where a library decomposes it, always at the same alignment.
struct DecomposedMatrix {
  SquareMatrixBatch batch;
  std::int64_t member = 0;
  const std::int32_t* flag = nullptr;  ///< of FlagMatrices
  std::int32_t* failed = nullptr;
  double* wide = nullptr;    ///< the matrix, two more of its side, and its values
  double* number = nullptr;  ///< of those that are measured; last max |Q Q^T - I|

  SHAMPOO_BOTH double* wide_values() const { return wide + 3 * batch.side * batch.side; }
};

/// wide <- A, or 0 where the flag is not 0. One block of threads per part of rows.
struct WidenMatrix {
  static constexpr int threads = 256;
  struct Shared {};

  DecomposedMatrix matrix;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// Q <- Q / sqrt(b), where b, the measured largest row sum of |Q Q^T|, bounds the squares of Q's
/// singular values. One block of threads per part of rows.
struct ShrinkVectors {
  static constexpr int threads = 256;
  struct Shared {};

  DecomposedMatrix matrix;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// A, values <- wide; failed, where it is 0, <- non_finite_root where the flag is not 0 or Q is not
/// orthogonal. One block of threads per part of rows.
struct NarrowVectors {
  static constexpr int threads = 256;
  struct Shared {};

  DecomposedMatrix matrix;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// values <- eigenvalues of the root. One block of threads per matrix.
struct RootSpectrum {
  static constexpr int threads = 256;
  struct Shared {
    double clamped[threads];
  };

  Batch<MatrixGroup> batch;
  Spectrum spectrum;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// q_j <- sqrt(value_j) q_j. One block of threads per part of rows.
struct ScaleVectors {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<MatrixGroup> batch;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Threads>
SHAMPOO_BOTH void FlagMatrices::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side;
  std::int32_t& flag = flags[batch.number_of(item)];
  const RowRange rows = row_part(n, item.part);
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const Real* const a =
        static_cast<const Real*>(item.group.x.data) + item.member * n * n + rows.first * n;
    block.each([&](int thread) {
      bool finite = true;
      for (std::int64_t e = thread; e < rows.count * n; e += threads)
        finite = finite && is_finite_real(a[e]);
      // All threads that write here write the same number.
      if (!finite) flag = 1;
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void WidenMatrix::operator()(Threads& block, Shared&) const {
  const std::int64_t n = matrix.batch.side;
  const RowRange rows = row_part(n, block.index());
  with_real(matrix.batch.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const Real* const a =
        static_cast<const Real*>(matrix.batch.data) + matrix.member * n * n + rows.first * n;
    double* const wide = matrix.wide + rows.first * n;
    const bool is_finite = *matrix.flag == 0;
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < rows.count * n; e += threads)
        wide[e] = is_finite ? static_cast<double>(a[e]) : 0;
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void ShrinkVectors::operator()(Threads& block, Shared&) const {
  const std::int64_t n = matrix.batch.side;
  const RowRange rows = row_part(n, block.index());
  double* const wide = matrix.wide + rows.first * n;
  const double scale = 1 / sqrt(*matrix.number);
  block.each([&](int thread) {
    for (std::int64_t e = thread; e < rows.count * n; e += threads) wide[e] *= scale;
  });
}

template <typename Threads>
SHAMPOO_BOTH void NarrowVectors::operator()(Threads& block, Shared&) const {
  const std::int64_t n = matrix.batch.side;
  const RowRange rows = row_part(n, block.index());
  with_real(matrix.batch.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    Real* const q = static_cast<Real*>(matrix.batch.data) + matrix.member * n * n + rows.first * n;
    Real* const values = static_cast<Real*>(matrix.batch.values) + matrix.member * n + rows.first;
    const double* const wide = matrix.wide + rows.first * n;
    const double* const wide_values = matrix.wide_values() + rows.first;
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < rows.count * n; e += threads)
        q[e] = static_cast<Real>(wide[e]);
      for (std::int64_t i = thread; i < rows.count; i += threads)
        values[i] = static_cast<Real>(wide_values[i]);
      // What a step's two products and Q Q^T round off is a few n epsilon.
      const bool is_orthogonal =
          *matrix.number <= 16 * static_cast<double>(n) * epsilon_of<double>();
      if (block.index() == 0 && thread == 0 && *matrix.failed == 0 &&
          (*matrix.flag != 0 || !is_orthogonal))
        *matrix.failed = non_finite_root;
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void RootSpectrum::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side, row = item.group.x.first + item.member;
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    Real* const values = static_cast<Real*>(item.group.x.values) + item.member * n;
    const SpectrumRule<Real> rule(spectrum, row, values[0], values[n - 1], n);
    // Every thread has read both ends.
    block.sync();
    block.each([&](int thread) {
      double clamped = 0;
      for (std::int64_t i = thread; i < n; i += threads) clamped += rule.apply(values[i]) ? 1 : 0;
      shared.clamped[thread] = clamped;
    });
  });
  reduce(block, shared.clamped, [](double a, double b) { return a + b; });
  block.each([&](int thread) {
    if (thread == 0 && spectrum.clamped != nullptr) spectrum.clamped[row] = shared.clamped[0];
  });
}

SHAMPOO_BOTH inline float root_of(float x) { return sqrtf(x); }
SHAMPOO_BOTH inline double root_of(double x) { return sqrt(x); }

template <typename Threads>
SHAMPOO_BOTH void ScaleVectors::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side;
  const RowRange rows = row_part(n, item.part);
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const Real* const values =
        static_cast<const Real*>(item.group.x.values) + item.member * n + rows.first;
    Real* const q = static_cast<Real*>(item.group.x.data) + item.member * n * n + rows.first * n;
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < rows.count * n; e += threads)
        q[e] *= root_of(values[e / n]);
    });
  });
}

}  // namespace shampoo::kernels::cuda
