// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/rules/factor_layout.h"
#include "kernels/types.h"

/// Arguments of kernels: plain structs that do not own memory. Pointers marked [backend] point into
/// the backend's memory; the host never dereferences them.
namespace shampoo::kernels {

/// Maximum number of elements of a tile. Tiles are cut by a block's own shape only, so sums over
/// the tiles of a block have the same order in every stack, on any number of threads.
inline constexpr std::int64_t tile_elements = 16384;

/// A 2-D part of one block: whole rows of its last dimension, or a part of one row. Its elements
/// are consecutive in flat slots, and strided in the caller's tensors (strides in elements).
struct Tile {
  std::int32_t block = 0;     ///< row of the blocks, modes, coefficients and norms
  std::int32_t tensor = 0;    ///< row of the tensors
  std::int64_t flat = 0;      ///< first element in flat slots
  std::int64_t value = 0;     ///< first element in the tensor's value
  std::int64_t gradient = 0;  ///< first element in the tensor's gradient
  std::int32_t rows = 0;
  std::int32_t columns = 0;
  std::int64_t value_row = 0, value_column = 1;
  std::int64_t gradient_row = 0, gradient_column = 1;
};

/// One block of a table of elements.
struct Block {
  std::int32_t tensor = 0;
  std::int32_t first_tile = 0, tile_count = 0;
  std::int64_t flat = 0;  ///< first element in flat slots
  std::int64_t elements = 0;
  std::int64_t master = -1;  ///< first element in the masters, or -1: the value is its own master
  std::int64_t segment = 0;  ///< first byte in the segment
  Type wire_type = Type::float32;  ///< type of its elements in the segment
  bool is_value = false;           ///< the segment holds new values, not updates to add
  /// Its steps compute in float32, so a scan judges its gradient there, whatever the table's type.
  bool scans_in_float32 = false;
  /// True if the gradient can be read in place as the matrix rows x columns that the stack says
  /// (order 1: one row), with the strides below.
  bool regular = false;
  std::int64_t gradient = 0, gradient_row = 0, gradient_column = 1;
};

/// The caller's tensors; a null gradient is absent.
struct Tensors {
  void* const* values = nullptr;           ///< [backend]
  const void* const* gradients = nullptr;  ///< [backend] null: all are absent
  const Type* value_types = nullptr;       ///< [backend]
  const Type* gradient_types = nullptr;    ///< [backend]
};

/// A table over which an elementwise kernel runs in one launch.
struct TileTable {
  Type arithmetic = Type::float32;  ///< float32 or float64: type of flat slots and computation
  const Tile* tiles = nullptr;      ///< [backend]
  std::int64_t tile_count = 0;
  const Block* blocks = nullptr;  ///< [backend]
  std::int64_t block_count = 0;
  Tensors tensors;
  double* partials = nullptr;  ///< [backend] three numbers per tile, for reductions
};

/// Role of one block in a step.
enum class Mode : std::uint8_t {
  absent,            ///< nothing: its gradient is absent
  unpreconditioned,  ///< the direction is the filtered gradient, or the grafting's direction
  preconditioned     ///< the direction is the preconditioner's, with the grafting's norm if any
};

/// V <- keep V + add G^2; the direction of F is F / (sqrt(V scale) + epsilon). A centered one has
/// A <- lerp(A, G, add), too.
struct SecondMoment {
  double keep = 1;
  double add = 0;
  double scale = 1;  ///< 1 / bias correction of V
  double epsilon = 0;
};

/// Rates of one block: doubles, each rounded once to the arithmetic type by the kernel that reads
/// it.
struct Coefficients {
  double gradient_sign = 1;  ///< -1: the gradient enters negated
  double l2 = 0;             ///< weight decay added to the gradient
  double factor_keep = 1;    ///< L <- keep L + add G G^T
  double factor_add = 1;
  double first_weight = 1;           ///< 1 - beta1; 1: no filter, and its moment is left alone
  double filter_weight = 1;          ///< 1 - beta3
  double filter_scale = 1;           ///< 1 / bias correction of the filtered gradient
  SecondMoment preconditioner = {};  ///< second moment of an elementwise preconditioner
  SecondMoment grafting = {};
  double decay = 0;     ///< P <- P + decay W
  double momentum = 0;  ///< B <- momentum B + damp P
  double damp = 1;      ///< 1 - dampening
  double step = 0;      ///< minus the learning rate
  // AveragingRule::iterate
  double iterate_keep = 1;    ///< Z <- keep Z: decoupled weight decay
  double iterate_pull = 0;    ///< 1 - mu_x
  double iterate_weight = 1;  ///< 1 - mu_x mu_y
};

/// Per-block inputs of the kernels of one step, for blocks of one virtual group.
struct PassContext {
  TileTable elements;
  const Mode* modes = nullptr;                 ///< [backend] per block
  const Coefficients* coefficients = nullptr;  ///< [backend] per block
  const double* gradient_scale = nullptr;      ///< [backend] of every tensor; 1 is exact
  const std::int32_t* proceed = nullptr;       ///< [backend] one flag; 0: nothing is written
  std::int64_t scale_stride = 0;  ///< from one tensor's scale to the next; 0: all have the same
  /// Scaled elements of gradients are clipped to [-limit, limit].
  double gradient_limit = __builtin_huge_val();

  SHAMPOO_BOTH double scale_of(std::int32_t tensor) const {
    return gradient_scale[tensor * scale_stride];
  }
  SHAMPOO_BOTH bool limits_gradients() const { return gradient_limit < __builtin_huge_val(); }
};

/// Gradients that some block of a stack may have, whatever the rates; a backend need not look for
/// others.
struct GradientForms {
  bool halves = true;    ///< 16 bits, regular, l2 is always 0
  bool wider = true;     ///< more bits, otherwise the same
  bool gathered = true;  ///< not regular, or with l2
};

/// Blocks of one extent, one after the other in the flat slots, back to back in `factors`.
struct Stack {
  std::vector<std::int64_t> extent;
  std::int64_t first_block = 0;  ///< row of its first block
  std::int64_t count = 0;
  std::int64_t stride = 0;  ///< elements of a flat slot from one block to the next
  /// For every dimension: [backend] `count` arrays of factors of side extent[k], or null where the
  /// dimension is left alone.
  std::vector<void*> factors;
  FactorLayout layout = FactorLayout::with_root;  ///< of these arrays
  /// For every dimension: [backend] `count` eigenbases, row-major n x n, one eigenvector per row;
  /// or null where the dimension keeps its coordinates. Empty where no kernel reads them.
  std::vector<void*> bases = {};
  /// For every dimension: [backend] `count` x n numbers that scale coordinates in the eigenbasis,
  /// or null. Empty where no kernel reads them.
  std::vector<void*> scales = {};
  /// Factors are those of accumulate_whitened_factors(): reserve() provides its scratch memory.
  bool whitens = false;
  double exponent = 0.5;  ///< inverse exponent of second moments in the eigenbases
  GradientForms gradients = {};
};

/// Which blocks of a stack take part: indices into the stack, ascending.
struct Selection {
  const std::int32_t* blocks = nullptr;  ///< [backend]
  std::int64_t count = 0;
};

/// Square matrices of one side in a solver's workspace: dense, row-major, back to back.
struct SquareMatrixBatch {
  Type type = Type::float32;  ///< float32 or float64
  std::int64_t side = 0;
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< row of its first matrix in columns and flags
  void* data = nullptr;    ///< [backend] count x side x side
  void* values = nullptr;  ///< [backend] count x side: eigenvalues; null where there are none
};

/// Arrays of factors of one side, anywhere.
struct FactorBatch {
  Type type = Type::float32;
  std::int64_t side = 0;
  std::int64_t count = 0;
  std::int64_t first = 0;         ///< row of its first matrix in columns and flags
  void* const* arrays = nullptr;  ///< [backend]
  FactorLayout layout = FactorLayout::with_root;
};

/// Eigenbases of one side, anywhere: row-major, one eigenvector per row.
struct BasisBatch {
  Type type = Type::float32;
  std::int64_t side = 0;
  std::int64_t count = 0;
  std::int64_t first = 0;         ///< row of its first matrix in columns and flags
  void* const* bases = nullptr;   ///< [backend] side x side each
  void* const* values = nullptr;  ///< [backend] side eigenvalues each; null where they are not kept
};

}  // namespace shampoo::kernels
