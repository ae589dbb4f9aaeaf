// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/formed_matrix.h"
#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/gemm/mirrored_tile.h"
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

/// X <- X + shift I, half. One block of threads per matrix.
struct AddIdentity {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<MatrixGroup> batch;
  double shift = 0;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// A, B, D, P, dense, whose mean with its transpose is A B, and where the result goes.
struct SymmetricProductGroup {
  SquareMatrixBatch x, b, d, product, c;

  SHAMPOO_BOTH std::int64_t count() const { return x.count; }
  SymmetricProductGroup range(std::int64_t begin, std::int64_t n) const {
    return {range_of(x, begin, n), range_of(b, begin, n), range_of(d, begin, n),
            range_of(product, begin, n), range_of(c, begin, n)};
  }
};

/// C <- product (P + P^T) / 2 + first A + addend D + identity I. One block of threads per pair of
/// tiles that mirror each other.
struct LinearCombination {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 4;
  using Shared = MirroredTile<float>;

  Batch<SymmetricProductGroup> batch;
  Form operands = Form::split;  ///< of A and D
  Weights weights;
  Form form = Form::split;  ///< of C

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

template <typename Threads>
SHAMPOO_BOTH void AddIdentity::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const FormedMatrix x = formed<float>(item.group.x, item.member, Form::half);
  const int n = static_cast<int>(item.group.x.side);
  block.each([&](int thread) {
    for (int i = thread; i < n; i += threads) x.add_to_diagonal(i, static_cast<float>(shift));
  });
}

template <typename Threads>
SHAMPOO_BOTH void LinearCombination::operator()(Threads& block, Shared& mirrored) const {
  const auto item = batch.item(block.index());
  const FormedMatrix a = formed<float>(item.group.x, item.member, operands);
  const FormedMatrix d = formed<float>(item.group.d, item.member, operands);
  const FormedMatrix p = formed<float>(item.group.product, item.member, Form::dense);
  const FormedMatrix c = formed<float>(item.group.c, item.member, form);
  const TilePlace at = tile_place(item.part);
  load_mirrored(block, mirrored, p, at);
  block.sync();
  const float of_product = static_cast<float>(weights.product);
  const float first = static_cast<float>(weights.first);
  const float addend = static_cast<float>(weights.addend);
  const float identity = static_cast<float>(weights.identity);
  make_both(block, mirrored, c, at, [&](int row, int column) {
    const std::int64_t i = at.top + row, j = at.left + column;
    EightNumbers x = p.load(i, j), of_a, of_d;
    if (first != 0) of_a = a.load(i, j);
    if (addend != 0) of_d = d.load(i, j);
    for (int k = 0; k < 8; ++k) {
      // The same at (i, j) and (j, i): halves are exact, and their sum does not depend on the
      // order.
      x.v[k] = of_product * (0.5F * x.v[k] + 0.5F * mirrored.v[row][column + k]);
      if (first != 0) x.v[k] += first * of_a.v[k];
      if (addend != 0) x.v[k] += addend * of_d.v[k];
      if (i == j + k) x.v[k] += identity;
    }
    return x;
  });
}

}  // namespace shampoo::kernels::cuda
