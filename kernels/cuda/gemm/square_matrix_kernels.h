// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/launch/batch.h"
#include "kernels/cuda/launch/reduce.h"
#include "kernels/facets.h"

namespace shampoo::kernels::cuda {

/// Y <- scale X + shift I. One block of threads per part of rows.
struct Combine {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<MatrixPairGroup> batch;
  const double* scales = nullptr;
  const double* shifts = nullptr;
  const std::uint8_t* active = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// One number for a part of rows of every active matrix. One block of threads per part.
struct MeasureParts {
  static constexpr int threads = 256;
  /// Threads that share a row.
  static constexpr int row_threads = 32;
  struct Shared {
    double numbers[threads];
  };

  Batch<MatrixGroup> batch;
  Measure what = Measure::trace;
  const std::uint8_t* active = nullptr;
  double* partials = nullptr;  ///< out, per block of threads
  Form form = Form::dense;     ///< of matrices for which has_forms() holds

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Real>
  SHAMPOO_BOTH static double term(Measure what, Real x, bool on_diagonal);
  template <typename Matrix, typename Threads>
  SHAMPOO_BOTH void measure_elements(Threads& block, Shared& shared, const Matrix& a,
                                     std::int64_t n, RowRange rows) const;
  template <typename Matrix, typename Threads>
  SHAMPOO_BOTH void measure_rows(Threads& block, Shared& shared, const Matrix& a, std::int64_t n,
                                 RowRange rows) const;
};

/// The number of every active matrix, from those of its parts. One block of threads per matrix.
struct MeasureMatrices {
  static constexpr int threads = 256;
  struct Shared {
    double numbers[threads];
  };

  Batch<MatrixGroup> batch;  ///< as for the parts
  Measure what = Measure::trace;
  const std::uint8_t* active = nullptr;
  const double* partials = nullptr;
  double* numbers = nullptr;    ///< out
  bool in_batch_order = false;  ///< numbers count the batch's matrices, from 0; otherwise rows

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  SHAMPOO_BOTH static double finish(Measure what, double merged);
};

template <typename Threads>
SHAMPOO_BOTH void Combine::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side, row = item.group.x.first + item.member;
  if (!is_active(active, row)) return;
  const RowRange rows = row_part(n, item.part);
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const std::int64_t offset = item.member * n * n + rows.first * n;
    const Real* const x = static_cast<const Real*>(item.group.x.data) + offset;
    Real* const y = static_cast<Real*>(item.group.y.data) + offset;
    const Real scale = static_cast<Real>(scales[row]), shift = static_cast<Real>(shifts[row]);
    const std::int64_t count = rows.count * n;
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < count; e += threads) {
        Real to = scale * x[e];
        if (is_on_diagonal(n, rows, e)) to += shift;
        y[e] = to;
      }
    });
  });
}

template <typename Real>
SHAMPOO_BOTH double MeasureParts::term(Measure what, Real x, bool on_diagonal) {
  const double a = static_cast<double>(x);
  switch (what) {
    case Measure::frobenius:
      return a * a;
    case Measure::off_diagonal:
      return on_diagonal ? 0 : a * a;
    case Measure::trace:
      return on_diagonal ? a : 0;
    case Measure::largest_row_sum:
      return fabs(a);
    case Measure::definite_size:
      return on_diagonal && !(a > 0) ? HUGE_VAL : fabs(a);
    case Measure::distance_from_identity:
      break;
  }
  return fabs(a - (on_diagonal ? 1.0 : 0.0));
}

SHAMPOO_BOTH constexpr bool is_maximum(Measure what) {
  return what != Measure::frobenius && what != Measure::off_diagonal && what != Measure::trace;
}
SHAMPOO_BOTH constexpr double merge_numbers(Measure what, double a, double b) {
  return is_maximum(what) ? largest_of(a, b) : a + b;
}

template <typename Matrix, typename Threads>
SHAMPOO_BOTH void MeasureParts::measure_elements(Threads& block, Shared& shared, const Matrix& a,
                                                 std::int64_t n, RowRange rows) const {
  typename Threads::template PerThread<double> numbers;
  for_each_eight_of_rows(block, n, rows, [&](int thread, std::int64_t row, std::int64_t column) {
    const auto eight = a.load(row, column);
    // What is behind the end of a row counts as zeros off the diagonal.
    for (int k = 0; k < 8; ++k)
      numbers[thread] =
          merge_numbers(what, numbers[thread], term(what, eight.v[k], row == column + k));
  });
  block.each([&](int thread) { shared.numbers[thread] = numbers[thread]; });
}

template <typename Matrix, typename Threads>
SHAMPOO_BOTH void MeasureParts::measure_rows(Threads& block, Shared& shared, const Matrix& a,
                                             std::int64_t n, RowRange rows) const {
  constexpr int rows_at_once = threads / row_threads;
  typename Threads::template PerThread<double> largest;
  for (std::int64_t first = 0; first < rows.count; first += rows_at_once) {
    block.each([&](int thread) {
      const std::int64_t row = first + thread / row_threads;
      double sum = 0;
      if (row < rows.count)
        for (std::int64_t j = thread % row_threads * 8; j < n; j += row_threads * 8) {
          const auto eight = a.load(rows.first + row, j);
          for (int k = 0; k < 8; ++k) sum += term(what, eight.v[k], false);
        }
      shared.numbers[thread] = sum;
    });
    block.sync();
    for (int half = row_threads / 2; half > 0; half /= 2) {
      block.each([&](int thread) {
        if (thread % row_threads < half) shared.numbers[thread] += shared.numbers[thread + half];
      });
      block.sync();
    }
    block.each([&](int thread) {
      largest[thread] =
          largest_of(largest[thread], shared.numbers[thread / row_threads * row_threads]);
    });
    block.sync();
  }
  block.each([&](int thread) { shared.numbers[thread] = largest[thread]; });
}

template <typename Threads>
SHAMPOO_BOTH void MeasureParts::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side;
  if (!is_active(active, item.group.x.first + item.member)) return;
  const RowRange rows = row_part(n, item.part);
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const auto a = formed<Real>(item.group.x, item.member, form);
    if (what == Measure::largest_row_sum)
      measure_rows(block, shared, a, n, rows);
    else
      measure_elements(block, shared, a, n, rows);
  });
  reduce(block, shared.numbers, [&](double a, double b) { return merge_numbers(what, a, b); });
  block.each([&](int thread) {
    if (thread == 0) partials[item.block] = shared.numbers[0];
  });
}

SHAMPOO_BOTH inline double MeasureMatrices::finish(Measure what, double merged) {
  return what == Measure::frobenius || what == Measure::off_diagonal ? sqrt(merged) : merged;
}

template <typename Threads>
SHAMPOO_BOTH void MeasureMatrices::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.matrix(block.index());
  const std::int64_t row = item.group.x.first + item.member;
  if (!is_active(active, row)) return;
  const double* const mine = partials + item.block;
  const std::int64_t parts = batch.parts_of(item);
  block.each([&](int thread) {
    double number = 0;
    for (std::int64_t p = thread; p < parts; p += threads)
      number = merge_numbers(what, number, mine[p]);
    shared.numbers[thread] = number;
  });
  reduce(block, shared.numbers, [&](double a, double b) { return merge_numbers(what, a, b); });
  block.each([&](int thread) {
    if (thread == 0)
      numbers[in_batch_order ? block.index() : row] = finish(what, shared.numbers[0]);
  });
}

}  // namespace shampoo::kernels::cuda
