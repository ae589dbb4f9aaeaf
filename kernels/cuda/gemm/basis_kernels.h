// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/gemm/square_products.h"
#include "kernels/cuda/launch/batch.h"
#include "kernels/cuda/launch/reduce.h"
#include "kernels/facets.h"

namespace shampoo::kernels::cuda {

/// Stored eigenbases and dense matrices of one side.
struct BasisGroup {
  BasisBatch bases;
  SquareMatrixBatch x;

  SHAMPOO_BOTH std::int64_t count() const { return x.count; }
  BasisGroup range(std::int64_t begin, std::int64_t n) const {
    BasisGroup part{bases, range_of(x, begin, n)};
    part.bases.bases += begin;
    if (bases.values != nullptr) part.bases.values += begin;
    part.bases.first += begin;
    part.bases.count = n;
    return part;
  }
};

/// Between stored bases and dense matrices. One block of threads per part of rows.
struct MoveBases {
  static constexpr int threads = 256;
  struct Shared {};

  enum class Task : std::uint8_t {
    load,   ///< X <- stored basis
    judge,  ///< flag <- non_finite_root where it is 0 and X or a value is not finite
    store   ///< stored basis and values <- X and its values, where the flag is 0
  };

  Batch<BasisGroup> batch;
  std::int32_t* failed = nullptr;
  Task task = Task::load;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Real, typename Stored, typename Threads>
  SHAMPOO_BOTH void move(Threads& block, const typename Batch<BasisGroup>::WorkItem& item) const;
};

/// Rows of Y <- the rows of X, orthonormal, by Householder reflections as in LAPACK's geqr2 and
/// org2r; X and its values are overwritten. One block of threads per matrix: columns are reflected
/// by a thread each, so that neighbours read neighbouring elements.
struct OrthonormalizeRows {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads];
  };

  Batch<MatrixPairGroup> batch;
  const std::uint8_t* active = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Real, typename Threads>
  SHAMPOO_BOTH static void reflect(Threads& block, Shared& shared, std::int64_t n, Real* y,
                                   Real* factors);
  template <typename Real, typename Threads>
  SHAMPOO_BOTH static void apply(Threads& block, std::int64_t n, std::int64_t k, Real factor,
                                 const Real* y, Real* to, std::int64_t first);
};

/// Rows of C <- those of B in ascending order of the values a_j b_j, which are C's values; A is
/// overwritten. One block of threads per matrix.
struct SortBasis {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<ThreeOf> batch;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH void MoveBases::move(Threads& block,
                                  const typename Batch<BasisGroup>::WorkItem& item) const {
  const std::int64_t n = item.group.x.side;
  const RowRange rows = row_part(n, item.part);
  const std::int64_t begin = rows.first * n, count = rows.count * n;
  Real* const x = static_cast<Real*>(item.group.x.data) + item.member * n * n + begin;
  const Real* const values = static_cast<const Real*>(item.group.x.values) + item.member * n;
  Stored* const basis = static_cast<Stored*>(item.group.bases.bases[item.member]) + begin;
  std::int32_t* const flag =
      failed == nullptr ? nullptr : failed + item.group.bases.first + item.member;
  Stored* const stored_values = item.group.bases.values == nullptr || item.part != 0
                                    ? nullptr
                                    : static_cast<Stored*>(item.group.bases.values[item.member]);
  block.each([&](int thread) {
    bool finite = true;
    for (std::int64_t e = thread; e < count; e += threads) {
      if (task == Task::load) x[e] = static_cast<Real>(basis[e]);
      if (task == Task::store) basis[e] = static_cast<Stored>(x[e]);
      finite = finite && is_finite_real(static_cast<Stored>(x[e]));
    }
    for (std::int64_t i = thread; i < n && task != Task::load; i += threads) {
      finite = finite && is_finite_real(static_cast<Stored>(values[i]));
      if (task == Task::store && stored_values != nullptr)
        stored_values[i] = static_cast<Stored>(values[i]);
    }
    // All threads that write here write the same number.
    if (task == Task::judge && !finite && *flag == 0) *flag = non_finite_root;
  });
}

template <typename Threads>
SHAMPOO_BOTH void MoveBases::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  if (task == Task::store && failed[item.group.bases.first + item.member] != 0) return;
  with_real(item.group.x.type, [&](auto* real) {
    with_real(item.group.bases.type, [&](auto* stored) {
      move<Element<decltype(real)>, Element<decltype(stored)>>(block, item);
    });
  });
}

/// Columns `first` and following of `to` <- (I - factor v v^T) to, with v = (1, y_{k+1,k}, ...)
template <typename Real, typename Threads>
SHAMPOO_BOTH void OrthonormalizeRows::apply(Threads& block, std::int64_t n, std::int64_t k,
                                            Real factor, const Real* y, Real* to,
                                            std::int64_t first) {
  block.each([&](int thread) {
    for (std::int64_t j = first + thread; j < n; j += threads) {
      Real sum = to[k * n + j];
      for (std::int64_t i = k + 1; i < n; ++i) sum += y[i * n + k] * to[i * n + j];
      sum *= factor;
      to[k * n + j] -= sum;
      for (std::int64_t i = k + 1; i < n; ++i) to[i * n + j] -= y[i * n + k] * sum;
    }
  });
  block.sync();
}

/// Y <- the reflections of its QR decomposition, below the diagonal
template <typename Real, typename Threads>
SHAMPOO_BOTH void OrthonormalizeRows::reflect(Threads& block, Shared& shared, std::int64_t n,
                                              Real* y, Real* factors) {
  for (std::int64_t k = 0; k < n; ++k) {
    block.each([&](int thread) {
      double sum = 0;
      for (std::int64_t i = k + 1 + thread; i < n; i += threads) {
        const double x = static_cast<double>(y[i * n + k]);
        sum += x * x;
      }
      shared.sums[thread] = sum;
    });
    reduce(block, shared.sums, [](double a, double b) { return a + b; });
    const double rest = shared.sums[0], head = static_cast<double>(y[k * n + k]);
    const double norm = sqrt(head * head + rest), beta = head < 0 ? norm : -norm;
    const bool reflects = rest > 0;
    // Every thread has read the head.
    block.sync();
    block.each([&](int thread) {
      const double divisor = head - beta;
      for (std::int64_t i = k + 1 + thread; i < n && reflects; i += threads)
        y[i * n + k] = static_cast<Real>(static_cast<double>(y[i * n + k]) / divisor);
      if (thread == 0) factors[k] = reflects ? static_cast<Real>((beta - head) / beta) : Real(0);
    });
    block.sync();
    if (reflects) apply(block, n, k, factors[k], y, y, k + 1);
  }
}

template <typename Threads>
SHAMPOO_BOTH void OrthonormalizeRows::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side;
  if (!is_active(active, item.group.x.first + item.member)) return;
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    Real* const x = static_cast<Real*>(item.group.x.data) + item.member * n * n;
    Real* const y = static_cast<Real*>(item.group.y.data) + item.member * n * n;
    Real* const factors = static_cast<Real*>(item.group.x.values) + item.member * n;
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < n * n; e += threads) y[e % n * n + e / n] = x[e];
    });
    block.sync();
    reflect(block, shared, n, y, factors);
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < n * n; e += threads)
        x[e] = e % (n + 1) == 0 ? Real(1) : Real(0);
    });
    block.sync();
    // Q = H_0 H_1 ... H_{n-1}
    for (std::int64_t k = n - 1; k >= 0; --k)
      if (factors[k] != 0) apply(block, n, k, factors[k], y, x, k);
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < n * n; e += threads) y[e % n * n + e / n] = x[e];
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void SortBasis::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.c.side;
  with_real(item.group.c.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    Real* const a = static_cast<Real*>(item.group.a.data) + item.member * n * n;
    const Real* const b = static_cast<const Real*>(item.group.b.data) + item.member * n * n;
    Real* const c = static_cast<Real*>(item.group.c.data) + item.member * n * n;
    Real* const values = static_cast<Real*>(item.group.c.values) + item.member * n;
    block.each([&](int thread) {
      for (std::int64_t j = thread; j < n; j += threads) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i)
          sum += static_cast<double>(a[j * n + i]) * static_cast<double>(b[j * n + i]);
        values[j] = static_cast<Real>(sum);
      }
      if (n == 1 && thread == 0) c[0] = b[0];
    });
    block.sync();
    if (n == 1) return;
    // NaN comes last: every row has a place of its own.
    const auto is_less = [](Real x, Real y) { return x < y || (x == x && y != y); };
    // A is not read any more: its first row takes the places of the rows, which are below 2^24, its
    // second row their values.
    block.each([&](int thread) {
      for (std::int64_t j = thread; j < n; j += threads) {
        std::int64_t place = 0;
        for (std::int64_t i = 0; i < n; ++i)
          place += is_less(values[i], values[j]) || (!is_less(values[j], values[i]) && i < j);
        a[j] = static_cast<Real>(place);
        a[n + j] = values[j];
      }
    });
    block.sync();
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < n * n; e += threads)
        c[static_cast<std::int64_t>(a[e / n]) * n + e % n] = b[e];
      for (std::int64_t j = thread; j < n; j += threads)
        values[static_cast<std::int64_t>(a[j])] = a[n + j];
    });
  });
}

}  // namespace shampoo::kernels::cuda
