// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/buffer.h"

namespace shampoo::kernels {

/// What became of one root, in the order in which attempts are made.
enum class Outcome : std::uint8_t {
  computed,        ///< by the solver that was asked for
  by_eigenvalues,  ///< by an eigendecomposition, after an iteration diverged
  jittered,        ///< with a jittered diagonal
  in_float64,
  by_jacobi,  ///< in float64
  failed
};

/// One factor and where its root goes.
struct RootJob {
  void* pair = nullptr;  ///< [backend] see Stack::factors
  std::int64_t side = 0;
  double exponent = 0.25;  ///< the root is A^-exponent
  double epsilon = 0;
  double scale = 1;                     ///< A = scale * factor
  Outcome outcome = Outcome::computed;  ///< out
  /// out: eigenvalues raised by a shift or floor; by Minimax: 1 if its relative shift won
  std::int64_t raised = 0;
};

class RootSlots;

/// Memory for a solver that works through any number of matrices, some at a time: a chunk. Columns
/// and flags have one row for each matrix of the chunk.
class SolverWorkspace {
 public:
  /// Dense copies of the chunk's matrices; what each holds is the solver's business.
  static constexpr int max_matrices = 7;

  SolverWorkspace(Backend& backend, Type arithmetic, int matrices)
      : backend_(backend), arithmetic_(arithmetic), matrices_(matrices) {}

  /// Gets memory for jobs of these sides, in any selection of them.
  void reserve(std::span<const std::int64_t> sides);

  /// Takes as many jobs as fit from the front of `order`, indices into jobs with equal sides
  /// adjacent; returns how many. Fills exponents, epsilons and scales.
  std::size_t take(std::span<const int> order, std::span<const RootJob> jobs, Type type);
  /// The same in two parts, for solvers that never wait: fills the columns for all jobs of `order`,
  /// once, before any chunk is taken ...
  void place(std::span<const int> order, std::span<const RootJob> jobs);
  /// ... then takes a chunk, whose rows begin at `first`.
  std::size_t take_placed(std::span<const int> order, std::span<const RootJob> jobs, Type type,
                          std::size_t first);

  /// Where a chunk of rows of slots begins.
  struct SlotCursor {
    std::size_t rows = 0;  ///< index into RootSlots::rows()
    std::size_t row = 0;   ///< of these
  };
  /// Takes as many rows of one exponent as fit, from the cursor on, which moves behind them: placed
  /// ones, or all. Returns the exponent; empty where no row is left.
  std::optional<double> take_slots(const RootSlots& slots, bool all, SlotCursor& cursor);

  std::span<const FactorBatch> pairs() const { return pairs_; }
  std::span<const SquareMatrixBatch> matrix(int index) const { return squares_[index]; }
  void exchange(int a, int b) { squares_[a].swap(squares_[b]); }
  std::span<const int> jobs() const { return taken_; }

  /// A <- scale * factor + shift, with trace scaling; see Loading. Uses the rows of `shifts`.
  void load(int a, double trace_exponent);
  /// A <- scale * factor, the same. Uploads nothing.
  void load_unshifted(int a, double trace_exponent);
  /// Numbers of the chunk's matrices, on the host. Waits.
  std::span<const double> measure(int a, Measure what, const std::uint8_t* which = nullptr);
  void send_flags();
  /// Stores X into the roots where failed is 0.
  void queue_store(int x);
  /// The same, and reads the flags back. Waits.
  std::span<const std::int32_t> store(int x);

  std::int64_t bytes() const;

  Backend& backend() const { return backend_; }

  // [backend], for the chunk's rows
  const double* epsilons_there() const { return job_epsilons_; }
  const std::uint8_t* active_there() const { return job_active_; }

  Mirror<double> scales, shifts, epsilons, exponents;
  Mirror<double> combine_scales, combine_shifts;
  Mirror<std::uint8_t> active, finished;
  Buffer sizes;                     ///< double per matrix
  Buffer failed;                    ///< int32 per matrix
  Buffer raised;                    ///< double per matrix
  std::vector<std::int32_t> flags;  ///< host side of `failed`
  std::vector<double> before;       ///< numbers that a solver keeps for a while

 private:
  void begin_chunk(const double* job_scales, const double* job_epsilons,
                   const std::uint8_t* job_active);
  /// Of matrices of one side, whose rows begin at `row`; the last group then takes more.
  void add_group(Type type, std::int64_t side, std::size_t row, void* const* arrays,
                 std::size_t bytes, std::size_t values);
  void extend_group(std::int64_t count);

  Backend& backend_;
  Type arithmetic_;
  int matrices_;
  std::size_t matrix_bytes_ = 0, value_bytes_ = 0;
  std::array<Buffer, max_matrices> memory_;
  Buffer values_, measured_;
  std::vector<double> numbers_;
  Mirror<void*> arrays_;
  Buffer zeros_;  ///< double per matrix
  const double* job_scales_ = nullptr;
  const double* job_epsilons_ = nullptr;
  const std::uint8_t* job_active_ = nullptr;
  std::array<std::vector<SquareMatrixBatch>, max_matrices> squares_;
  std::vector<FactorBatch> pairs_;
  std::vector<int> taken_;
};

}  // namespace shampoo::kernels
