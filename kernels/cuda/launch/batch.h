// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/cuda/launch/share.h"
#include "kernels/cuda/launch/thread_block.h"
#include "kernels/views.h"

namespace shampoo::kernels::cuda {

/// Groups of matrices for one launch, passed by value, and the assignment of matrices to blocks of
/// threads. A Group counts its matrices and cuts ranges out of itself:
///
///     SHAMPOO_BOTH std::int64_t count() const;
///     Group range(std::int64_t begin, std::int64_t count) const;
template <typename Group>
struct Batch {
  static constexpr int capacity = 48;

  /// The share of one block of threads.
  struct WorkItem {
    const Group& group;
    std::int64_t member;  ///< matrix of the group
    std::int64_t part;    ///< of the matrix
    std::int64_t block;   ///< of threads, in the launch
  };

  Group groups[capacity];
  std::int64_t parts[capacity];  ///< blocks of threads for each matrix of a group
  std::int64_t first[capacity];  ///< a group's first block of threads
  int count = 0;
  std::int64_t blocks = 0;

  void add(const Group& group, std::int64_t parts_of_each) {
    groups[count] = group;
    parts[count] = parts_of_each;
    first[count] = blocks;
    blocks += group.count() * parts_of_each;
    ++count;
  }

  std::int64_t matrices() const {
    std::int64_t sum = 0;
    for (int g = 0; g < count; ++g) sum += groups[g].count();
    return sum;
  }

  /// Number of a matrix in the order of the batch.
  SHAMPOO_BOTH std::int64_t number_of(const WorkItem& item) const {
    std::int64_t number = item.member;
    for (int g = 0; &groups[g] != &item.group; ++g) number += groups[g].count();
    return number;
  }
  /// The first part of such a matrix.
  SHAMPOO_BOTH WorkItem matrix(std::int64_t number) const {
    int g = 0;
    for (; number >= groups[g].count(); ++g) number -= groups[g].count();
    return {groups[g], number, 0, first[g] + number * parts[g]};
  }
  SHAMPOO_BOTH std::int64_t parts_of(const WorkItem& item) const {
    return parts[&item.group - groups];
  }
  /// The row of such a matrix in columns and flags; -1: there is none.
  SHAMPOO_BOTH std::int64_t row_of(std::int64_t number) const {
    for (int g = 0; g < count; ++g) {
      if (number < groups[g].count()) return groups[g].x.first + number;
      number -= groups[g].count();
    }
    return -1;
  }

  SHAMPOO_BOTH WorkItem item(std::int64_t block) const {
    const int g = share_with(block, first, count);
    const std::int64_t within = block - first[g];
    return {groups[g], within / parts[g], within % parts[g], block};
  }
};

/// run(batch) for batches that hold all groups, group_at(0) to group_at(count - 1), with
/// parts_of(group) blocks of threads for each matrix, and no more of them at a time than
/// `most_blocks`, unless one matrix has more.
template <typename Group, typename GroupAt, typename PartsOf, typename Run>
void for_each_batch(std::size_t count, GroupAt&& group_at, PartsOf&& parts_of, Run&& run,
                    std::int64_t most_blocks = std::numeric_limits<std::int32_t>::max()) {
  Batch<Group> batch;
  const auto flush = [&] {
    if (batch.count > 0) run(batch);
    batch.count = 0;
    batch.blocks = 0;
  };
  for (std::size_t g = 0; g < count; ++g) {
    const Group group = group_at(g);
    if (group.count() == 0) continue;
    const std::int64_t parts = parts_of(group);
    for (std::int64_t done = 0; done < group.count();) {
      const std::int64_t least = batch.blocks == 0 ? 1 : 0;
      const std::int64_t fitting = std::max(least, (most_blocks - batch.blocks) / parts);
      if (batch.count == Batch<Group>::capacity || fitting == 0) {
        flush();
        continue;
      }
      const std::int64_t taken = std::min(fitting, group.count() - done);
      batch.add(group.range(done, taken), parts);
      done += taken;
    }
  }
  flush();
}

/// A group of matrices, or of pairs of them.
inline SquareMatrixBatch range_of(SquareMatrixBatch squares, std::int64_t begin,
                                  std::int64_t count) {
  const std::int64_t bytes = static_cast<std::int64_t>(size_of(squares.type));
  squares.data = static_cast<char*>(squares.data) + begin * squares.side * squares.side * bytes;
  if (squares.values != nullptr)
    squares.values = static_cast<char*>(squares.values) + begin * squares.side * bytes;
  squares.first += begin;
  squares.count = count;
  return squares;
}
inline FactorBatch range_of(FactorBatch pairs, std::int64_t begin, std::int64_t count) {
  pairs.arrays += begin;
  pairs.first += begin;
  pairs.count = count;
  return pairs;
}

/// Matrices of one side.
struct MatrixGroup {
  SquareMatrixBatch x;

  SHAMPOO_BOTH std::int64_t count() const { return x.count; }
  MatrixGroup range(std::int64_t begin, std::int64_t n) const { return {range_of(x, begin, n)}; }
};

/// Source and destination matrices of one side.
struct MatrixPairGroup {
  SquareMatrixBatch x, y;

  SHAMPOO_BOTH std::int64_t count() const { return x.count; }
  MatrixPairGroup range(std::int64_t begin, std::int64_t n) const {
    return {range_of(x, begin, n), range_of(y, begin, n)};
  }
};

/// for_each_batch() of pairs: x[g] and y[g], group by group of the same side and count.
template <typename Run>
void for_each_pair_batch(std::span<const SquareMatrixBatch> x, std::span<const SquareMatrixBatch> y,
                         std::int64_t (*parts_of)(const MatrixPairGroup&), Run&& run) {
  for_each_batch<MatrixPairGroup>(
      x.size(),
      [&](std::size_t g) {
        return MatrixPairGroup{x[g], y[g]};
      },
      parts_of, run);
}

/// Dense matrices and the pair arrays that they are unpacked from or packed into.
struct PackedMatrixGroup {
  FactorBatch pairs;
  SquareMatrixBatch squares;

  SHAMPOO_BOTH std::int64_t count() const { return pairs.count; }
  PackedMatrixGroup range(std::int64_t begin, std::int64_t n) const {
    return {range_of(pairs, begin, n), range_of(squares, begin, n)};
  }
};

/// True if a matrix takes part; null: all do.
SHAMPOO_BOTH inline bool is_active(const std::uint8_t* active, std::int64_t row) {
  return active == nullptr || active[row] != 0;
}

}  // namespace shampoo::kernels::cuda
