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

/// Y <- X / scale, in a form, of dense X. One block of threads per part of rows.
struct Convert {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<MatrixPairGroup> batch;
  const double* scales = nullptr;  ///< powers of two, per matrix; null: 1
  Form form = Form::split;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// X <- X + shift I, dense or half. One block of threads per matrix.
struct AddIdentity {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<MatrixGroup> batch;
  double shift = 0;
  Form form = Form::half;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// A, B, D, the sums of A B as a library makes them, dense, and where the result goes.
struct SymmetricProductGroup {
  SquareMatrixBatch x, b, d, product, c;

  SHAMPOO_BOTH std::int64_t count() const { return x.count; }
  SymmetricProductGroup range(std::int64_t begin, std::int64_t n) const {
    return {range_of(x, begin, n), range_of(b, begin, n), range_of(d, begin, n),
            range_of(product, begin, n), range_of(c, begin, n)};
  }
};

/// C <- weight (P + P^T) / 2 + first A + addend D + identity I, of a product P. One block of
/// threads per pair of tiles that mirror each other.
struct LinearCombination {
  static constexpr int threads = 256;
  struct Shared {
    float mirrored[mirrored_side][mirrored_side + 1];
  };

  Batch<SymmetricProductGroup> batch;
  Form operands = Form::split;  ///< of A and D
  Weights weights;
  Form form = Form::split;  ///< of C

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  /// mirrored <- the transpose of P's upper tile
  template <typename Threads>
  SHAMPOO_BOTH static void load_mirrored(Threads& block, Shared& shared, const FormedMatrix& p,
                                         std::int64_t top, std::int64_t left) {
    for_each_eight(block, [&](int row, int column) {
      const EightNumbers above = p.load(left + row, top + column);
      for (int k = 0; k < 8; ++k) shared.mirrored[column + k][row] = above.v[k];
    });
  }

  /// C's upper tile <- the transpose of `mirrored`
  template <typename Threads>
  SHAMPOO_BOTH static void store_mirrored(Threads& block, const Shared& shared,
                                          const FormedMatrix& c, std::int64_t top,
                                          std::int64_t left) {
    for_each_eight(block, [&](int row, int column) {
      EightNumbers x;
      for (int k = 0; k < 8; ++k) x.v[k] = shared.mirrored[column + k][row];
      c.store(left + row, top + column, x);
    });
  }

  /// body(row, column) for all groups of eight of a tile.
  template <typename Threads, typename Body>
  SHAMPOO_BOTH static void for_each_eight(Threads& block, Body&& body) {
    constexpr int across = mirrored_side / 8;
    block.each([&](int thread) {
      for (int e = thread; e < mirrored_side * across; e += threads)
        body(e / across, e % across * 8);
    });
  }
};

template <typename Threads>
SHAMPOO_BOTH void Convert::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side;
  // The product is the quotient, and rounded where it underflows only.
  const double inverse = scales == nullptr ? 1 : 1 / scales[item.group.x.first + item.member];
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const auto x = formed<Real>(item.group.x, item.member, Form::dense);
    const auto y = formed<Real>(item.group.y, item.member, form);
    for_each_eight_of_rows(
        block, n, row_part(n, item.part), [&](int, std::int64_t row, std::int64_t column) {
          auto eight = x.load(row, column);
          if (scales != nullptr)
            for (Real& element : eight.v)
              element = static_cast<Real>(static_cast<double>(element) * inverse);
          y.store(row, column, eight);
        });
  });
}

template <typename Threads>
SHAMPOO_BOTH void AddIdentity::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const FormedMatrix x = formed<float>(item.group.x, item.member, form);
  const int n = static_cast<int>(item.group.x.side);
  block.each([&](int thread) {
    for (int i = thread; i < n; i += threads) x.add_to_diagonal(i, static_cast<float>(shift));
  });
}

template <typename Threads>
SHAMPOO_BOTH void LinearCombination::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  const FormedMatrix a = formed<float>(item.group.x, item.member, operands);
  const FormedMatrix d = formed<float>(item.group.d, item.member, operands);
  const FormedMatrix p = formed<float>(item.group.product, item.member, Form::dense);
  const FormedMatrix c = formed<float>(item.group.c, item.member, form);
  const TileIndex tile = lower_tile(item.part);
  const std::int64_t top = tile.row * mirrored_side, left = tile.column * mirrored_side;
  load_mirrored(block, shared, p, top, left);
  block.sync();
  const float of_product = static_cast<float>(weights.product);
  const float first = static_cast<float>(weights.first);
  const float addend = static_cast<float>(weights.addend);
  const float identity = static_cast<float>(weights.identity);
  for_each_eight(block, [&](int row, int column) {
    const std::int64_t i = top + row, j = left + column;
    EightNumbers x = p.load(i, j), of_a, of_d;
    if (first != 0) of_a = a.load(i, j);
    if (addend != 0) of_d = d.load(i, j);
    for (int k = 0; k < 8; ++k) {
      float& above = shared.mirrored[row][column + k];
      // The same at (i, j) and (j, i): halves are exact, and their sum does not depend on the
      // order.
      x.v[k] = of_product * (0.5F * x.v[k] + 0.5F * above);
      if (first != 0) x.v[k] += first * of_a.v[k];
      if (addend != 0) x.v[k] += addend * of_d.v[k];
      if (i == j + k) x.v[k] += identity;
      above = x.v[k];
    }
    c.store(i, j, x);
  });
  if (top == left) return;
  block.sync();
  store_mirrored(block, shared, c, top, left);
}

}  // namespace shampoo::kernels::cuda
