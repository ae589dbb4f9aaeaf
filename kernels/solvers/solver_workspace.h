// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/scratch_memory.h"
#include "kernels/solvers/root_table.h"

namespace shampoo::kernels {

/// Scratch memory of a solver that works through the rows of a table in chunks: as many matrices as
/// fit at a time. All arrays of numbers and flags are indexed by the row of the table.
class SolverWorkspace {
 public:
  /// Dense copies of a chunk's matrices that a solver has at most.
  static constexpr int most_matrices = 7;

  SolverWorkspace(Backend& backend, Type arithmetic, int matrices)
      : backend_(backend), arithmetic_(arithmetic), matrices_(matrices), scalars_(backend) {}
  SolverWorkspace(const SolverWorkspace&) = delete;

  /// Has its matrices in this memory, which must outlive it, instead of its own. Before reserve().
  void share(ScratchMemory& memory) { memory_ = &memory; }

  /// Allocates everything for the rows of a table, which must outlive this.
  void reserve(const RootTable& table);

  /// Which rows a chunk is taken from, and how.
  struct Selection {
    std::span<const std::uint8_t> wanted = {};  ///< one flag per row; empty: all rows
    Type type = Type::float32;                  ///< of the dense matrices
    bool one_exponent = false;                  ///< a chunk ends where the exponent changes
  };
  /// Makes a chunk of the wanted rows from `next` on, as many as fit, and moves `next` behind them.
  /// False if no wanted row is left.
  bool take(const Selection& from, std::size_t& next);

  /// Rows of the chunk, ascending.
  std::span<const std::size_t> rows() const { return rows_; }
  /// Exponent of the chunk's first row.
  double exponent() const { return table_->rows()[rows_.front()].exponent; }
  std::span<const FactorBatch> pairs() const { return pairs_; }
  std::span<const SquareMatrixBatch> matrix(int index) const { return squares_[index]; }
  void exchange(int a, int b) { squares_[a].swap(squares_[b]); }

  /// A <- factor, with the table's scales; arrays have a number per row.
  void unpack_factors(int a, Loading loading);
  /// One number per row of the chunk, on the host. Waits.
  std::span<const double> measure(int a, Measure what, const std::uint8_t* which = nullptr);
  /// Uploads `flags` into `failed` for the chunk.
  void upload_flags();
  /// Stores X, scaled, into the roots where `failed` is 0.
  void pack_roots(int x, const RootScaling& scaling = {});
  /// The same, then download_flags().
  std::span<const std::int32_t> pack_roots_and_wait(int x, const RootScaling& scaling = {});
  /// Downloads `failed` into `flags` for the chunk, and returns them. Waits.
  std::span<const std::int32_t> download_flags();

  /// Without memory that is shared.
  std::int64_t bytes() const;

  Backend& backend() const { return backend_; }
  const RootTable& table() const { return *table_; }
  void upload_scalars() { scalars_.upload(); }

  // Written by the host, one per row; zero until then.
  StagedArray<double> shifts, epsilons, combine_scales, combine_shifts;
  StagedArray<std::uint8_t> active, finished;
  // [backend], one per row
  Buffer sizes;                       ///< double
  Buffer failed;                      ///< int32: 0, or why there is no root
  Buffer clamped;                     ///< double
  std::vector<std::int32_t> flags;    ///< the host's copy of `failed`
  std::vector<double> errors_before;  ///< of an iteration, per row

 private:
  void allocate_matrices();
  void begin_group(Type type, std::size_t row, std::size_t bytes, std::size_t values);
  /// First row of the chunk and number of rows up to its last one, for copies.
  std::pair<std::size_t, std::size_t> range() const {
    return {rows_.front(), rows_.back() - rows_.front() + 1};
  }

  Backend& backend_;
  Type arithmetic_;
  int matrices_;
  const RootTable* table_ = nullptr;
  StagedArrays scalars_;
  ScratchMemory own_;
  ScratchMemory* memory_ = &own_;
  std::size_t matrix_bytes_ = 0;  ///< of each of the copies
  Buffer values_, measured_;
  std::vector<double> numbers_;  ///< the host's copy of measured_

  // The chunk.
  std::vector<std::size_t> rows_;
  std::vector<FactorBatch> pairs_;
  /// Dense copies of its matrices; the solver decides what each holds.
  std::array<std::vector<SquareMatrixBatch>, most_matrices> squares_;
};

}  // namespace shampoo::kernels
