// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/formed_matrix.h"
#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/gemm/tile_class.h"
#include "kernels/cuda/launch/batch.h"

/// Kernels of symmetric matrices that may have forms.
namespace shampoo::kernels::cuda {

/// True if products of these run on units for 16 bits; all others are dense in every form.
SHAMPOO_BOTH constexpr bool has_forms(const SquareMatrixBatch& squares) {
  return squares.type == Type::float32 && squares.side > longest_small_side;
}

/// Matrix `member` of a group, of which every one takes the memory of its numbers.
template <typename Real>
SHAMPOO_BOTH auto formed(const SquareMatrixBatch& squares, std::int64_t member, Form form) {
  const std::int64_t n = squares.side;
  Real* const data = static_cast<Real*>(squares.data) + member * n * n;
  if constexpr (sizeof(Real) == sizeof(double))
    return Float64Matrix(data, n);
  else
    return FormedMatrix(data, n, has_forms(squares) ? form : Form::dense);
}

/// body(thread, row, column) for all groups of eight of whole rows.
template <typename Threads, typename Body>
SHAMPOO_BOTH void for_each_eight_of_rows(Threads& block, std::int64_t side, const RowRange& rows,
                                         Body&& body) {
  const int across = static_cast<int>(ceiling(side, 8));
  block.each([&](int thread) {
    for (int e = thread; e < static_cast<int>(rows.count) * across; e += Threads::count)
      body(thread, rows.first + e / across, std::int64_t{e % across} * 8);
  });
}

/// Y <- X, in a form, of dense X. One block of threads per part of rows.
struct Convert {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<MatrixPairGroup> batch;
  Form form = Form::split;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Threads>
SHAMPOO_BOTH void Convert::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side;
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const auto x = formed<Real>(item.group.x, item.member, Form::dense);
    const auto y = formed<Real>(item.group.y, item.member, form);
    for_each_eight_of_rows(block, n, row_part(n, item.part),
                           [&](int, std::int64_t row, std::int64_t column) {
                             y.store(row, column, x.load(row, column));
                           });
  });
}

}  // namespace shampoo::kernels::cuda
