// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/eigen_kernels.h"
#include "kernels/cuda/gemm/product_phase.h"

namespace shampoo::kernels::cuda {

/// Matrices of one shape that are orthogonalised, `stride` elements apart.
struct PolarStack {
  Type type = Type::float32;
  std::int64_t rows = 0, columns = 0, count = 0, stride = 0;
  std::int64_t first_block = 0;
  void* direction = nullptr;
  void* dense = nullptr;  ///< scratch memory of the same layout

  PolarStack(const Stack& stack, Type arithmetic)
      : type(arithmetic),
        rows(stack.extent[0]),
        columns(stack.extent[1]),
        count(stack.count),
        stride(stack.stride),
        first_block(stack.first_block) {}

  std::int64_t side() const { return std::min(rows, columns); }
  std::int64_t elements() const { return count * stride; }
  /// Matrices that are multiplied at a time: those whose squares take 64 MiB, at least one.
  std::int64_t chunk() const { return chunk_of(square_bytes(side())); }
  std::size_t product_bytes() const {
    return 2 * static_cast<std::size_t>(chunk()) * square_bytes(side());
  }
  /// Matrices that are decomposed at a time; each takes a matrix, its values and a flag.
  std::int64_t decomposition_chunk() const { return chunk_of(square_bytes(rows + columns)); }
  std::size_t decomposition_bytes() const {
    const auto n = static_cast<std::size_t>(rows + columns);
    return static_cast<std::size_t>(decomposition_chunk()) *
           (square_bytes(rows + columns) + n * size_of(type) + sizeof(double));
  }

 private:
  static std::size_t constexpr usual_bytes = std::size_t{64} << 20;

  std::size_t square_bytes(std::int64_t side) const {
    return static_cast<std::size_t>(side * side) * size_of(type);
  }
  std::int64_t chunk_of(std::size_t bytes) const {
    const auto fitting = static_cast<std::int64_t>(usual_bytes / bytes);
    return std::clamp<std::int64_t>(fitting, 1, std::max<std::int64_t>(count, 1));
  }
};

/// X <- F / max(|F|, floor), for blocks that are preconditioned. One block of threads per tile.
template <typename Real>
struct ScaleToUnitNorm {
  static constexpr int threads = 256;
  struct Shared {};

  ProductPhase phase;
  const void* direction = nullptr;  ///< F, flat
  void* x = nullptr;                ///< flat; may be F
  const double* squared_norms = nullptr;
  double floor = 0;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// H <- [0 X; X^T 0]. One block of threads per part of rows.
struct Embed {
  static constexpr int threads = 256;
  struct Shared {};

  SquareMatrixBatch h;
  std::int64_t rows = 0;    ///< of X
  const void* x = nullptr;  ///< the batch's first
  std::int64_t stride = 0;  ///< elements from one to the next

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// The last min(rows, columns) eigenvectors q_j = (u_j, v_j) / sqrt(2), whose values are the
/// singular values of X: u_j / sqrt(2) <- 2 scale (u_j / sqrt(2)) for values above a cut, 0 for
/// others; q_j <- 0 for all where the decomposition failed. One block of threads per matrix.
struct WeighSingularVectors {
  static constexpr int threads = 256;
  struct Shared {};

  SquareMatrixBatch h;
  std::int64_t rows = 0;
  double scale = 1;
  bool nuclear = false;
  const double* squared_norms = nullptr;  ///< of F, of the batch's first
  double floor = 0;
  const std::int32_t* failed = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void ScaleToUnitNorm<Real>::operator()(Threads& block, Shared&) const {
  const Tile& tile = phase.elements.tiles[block.index()];
  if (!phase.preconditions(tile.block)) return;
  const double inverse = 1 / largest_of(sqrt(squared_norms[tile.block]), floor);
  const Real* const from = static_cast<const Real*>(direction) + tile.flat;
  Real* const to = static_cast<Real*>(x) + tile.flat;
  const std::int64_t count = static_cast<std::int64_t>(tile.rows) * tile.columns;
  block.each([&](int thread) {
    for (std::int64_t e = thread; e < count; e += threads)
      to[e] = static_cast<Real>(static_cast<double>(from[e]) * inverse);
  });
}

template <typename Threads>
SHAMPOO_BOTH void Embed::operator()(Threads& block, Shared&) const {
  const std::int64_t n = h.side, columns = n - rows, parts = row_parts(n);
  const std::int64_t member = block.index() / parts;
  const RowRange range = row_part(n, block.index() % parts);
  with_real(h.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const Real* const from = static_cast<const Real*>(x) + member * stride;
    Real* const to = static_cast<Real*>(h.data) + (member * n + range.first) * n;
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < range.count * n; e += threads) {
        const std::int64_t i = range.first + e / n, j = e % n;
        to[e] = i < rows && j >= rows   ? from[i * columns + j - rows]
                : i >= rows && j < rows ? from[j * columns + i - rows]
                                        : Real(0);
      }
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void WeighSingularVectors::operator()(Threads& block, Shared&) const {
  const std::int64_t n = h.side, member = block.index();
  const std::int64_t k = rows < n - rows ? rows : n - rows;
  with_real(h.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const Real* const values = static_cast<const Real*>(h.values) + (member + 1) * n - k;
    Real* const q = static_cast<Real*>(h.data) + ((member + 1) * n - k) * n;
    const bool none = failed[member] != 0;
    const Real cut = static_cast<Real>(n) * epsilon_of<Real>() * values[k - 1];
    double weight = 2 * scale;
    if (nuclear) {
      double sum = 0;
      for (std::int64_t j = k; j-- > 0 && values[j] > cut;) sum += static_cast<double>(values[j]);
      weight *= sum * largest_of(sqrt(squared_norms[member]), floor);
    }
    block.each([&](int thread) {
      for (std::int64_t e = thread; e < k * n; e += threads) {
        if (none || !(values[e / n] > cut))
          q[e] = 0;
        else if (e % n < rows)
          q[e] *= static_cast<Real>(weight);
      }
    });
  });
}

}  // namespace shampoo::kernels::cuda
