// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace shampoo::kernels {

/// C is rows x columns; every element is a sum of `depth` terms.
struct BlockShape {
  std::int64_t rows = 0, columns = 0, depth = 0;
};

/// A has one sum per row, B one per column.
template <typename Real>
struct BlockOperand {
  const Real* data = nullptr;
  std::int64_t stride = 0;
  bool along_depth = false;  ///< terms of one sum lie back to back, sums a stride apart
};

/// Rows of memory that are used after a product, and are brought into the second-level cache during
/// it.
struct RowsAhead {
  const void* data;
  std::int64_t rows, row_bytes, stride_bytes;
};

/// Some of them, in the order of use. Left out: what would drive all else from that cache, and more
/// than a block, its companion and the next block need together. Made for every product: rows that
/// are not there stay unset.
class MemoryAhead {
 public:
  MemoryAhead() : count_(0) {}
  MemoryAhead(std::initializer_list<RowsAhead> some) : MemoryAhead() {
    for (const RowsAhead& rows : some) add(rows);
  }
  MemoryAhead(const MemoryAhead& other) : MemoryAhead() { add(other); }
  MemoryAhead& operator=(const MemoryAhead&) = delete;

  void add(const RowsAhead& rows) {
    if (rows.rows > 0 && rows.rows * rows.row_bytes <= most_bytes && count_ < most)
      rows_[count_++] = rows;
  }
  void add(const MemoryAhead& more) {
    for (const RowsAhead& rows : more) add(rows);
  }
  const RowsAhead* begin() const { return rows_; }
  const RowsAhead* end() const { return rows_ + count_; }

 private:
  static constexpr int most = 10;
  static constexpr std::int64_t most_bytes = 640 << 10;
  RowsAhead rows_[most];
  int count_;
};

template <typename Real>
RowsAhead ahead(const Real* data, std::int64_t count) {
  const auto bytes = count * static_cast<std::int64_t>(sizeof(Real));
  return data == nullptr ? RowsAhead{} : RowsAhead{data, 1, bytes, 0};
}

/// Products C = A B of matrices that fit into the second-level cache. `scratch`:
/// block_product_scratch() elements. No operand is an output.
template <typename Real>
struct BlockProducts {
  /// C, rows a stride apart
  void (*multiply)(const BlockShape&, const BlockOperand<Real>& a, const BlockOperand<Real>& b,
                   const MemoryAhead&, Real* c, std::int64_t stride, Real* scratch) = nullptr;
  /// C <- C - A B
  void (*subtract)(const BlockShape&, const BlockOperand<Real>& a, const BlockOperand<Real>& b,
                   Real* c, std::int64_t stride, Real* scratch) = nullptr;
  /// L <- keep L + add S S^T in the lower triangle of a factor: see triangle_row(). S is side x
  /// depth.
  void (*accumulate)(std::int64_t side, std::int64_t depth, const BlockOperand<Real>& s,
                     const MemoryAhead&, Real keep, Real add, Real* factor, bool packed,
                     Real* scratch) = nullptr;
};

/// Sides that fill tiles, and fit into the caches.
inline constexpr std::int64_t shortest_block_side = 8, longest_block_side = 384;

/// For operands with sides up to this one.
inline std::int64_t block_product_scratch(std::int64_t side) {
  constexpr std::int64_t widest_panel = 64, tallest_tile = 8;
  side = std::min(side, longest_block_side);
  return side * (side + widest_panel + tallest_tile);
}

/// Those of this processor; null members where there are none.
const BlockProducts<float>& block_products(float);
const BlockProducts<double>& block_products(double);

template <typename Real>
const BlockProducts<Real>& block_products() {
  return block_products(Real());
}

/// Whether they are for products of this shape on this processor.
template <typename Real>
bool has_block_product(const BlockShape& shape) {
  const auto [least, most] = std::minmax({shape.rows, shape.columns, shape.depth});
  return least >= shortest_block_side && most <= longest_block_side &&
         block_products<Real>().multiply != nullptr;
}

/// OpenBLAS multiplies without packing, and calls malloc for it where no operand is transposed, up
/// to this many multiplications.
constexpr std::int64_t most_unpacked_products = 1'000'000;

/// BlockProducts::multiply and subtract where they are for this shape, and else BLAS's products,
/// without prefetch. No operand is transposed there if A, and not B, lies along the depth.
template <typename Real>
void multiply(const BlockShape&, const BlockOperand<Real>& a, const BlockOperand<Real>& b,
              const MemoryAhead&, Real* c, std::int64_t stride, Real* scratch);
template <typename Real>
void subtract(const BlockShape&, const BlockOperand<Real>& a, const BlockOperand<Real>& b, Real* c,
              std::int64_t stride, Real* scratch);

BlockProducts<float> x86_v3_block_products(float);
BlockProducts<double> x86_v3_block_products(double);
BlockProducts<float> x86_v4_block_products(float);
BlockProducts<double> x86_v4_block_products(double);

}  // namespace shampoo::kernels
