// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/group.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// How the numbers of a state tensor follow each other.
enum class StateLayout : std::uint8_t {
  elements,   ///< one number per element of the box, row-major
  symmetric,  ///< the lower triangle of a symmetric matrix: rows 0, 1, ... up to the diagonal,
              ///< n (n + 1) / 2 numbers
  square,     ///< an n x n matrix, row-major
  vector      ///< n numbers
};

/// Numbers of one dimension's matrix or vector of side n. Not for `elements`. Throws
/// std::invalid_argument where they leave 63 bits.
std::int64_t numbers_of(StateLayout layout, std::int64_t n);

/// A part of one slot of one parameter, copied to host memory. Matrices and vectors belong to
/// one block, so their box is that of the block; elementwise slots may be cut in any way.
struct StateTensor {
  std::string parameter = {};
  std::string slot = {};                 ///< "filtered_gradient", "factor/0", ...
  std::vector<std::int64_t> shape = {};  ///< of the parameter, small dimensions merged
  Box box = {};                          ///< the part of it that is here
  StateLayout layout = StateLayout::elements;
  int dimension = 0;  ///< of the block, for the other layouts: n is box.extent[dimension]
  Type type = Type::float32;
  std::vector<std::byte> bytes = {};  ///< in the byte order of the host

  /// "<parameter>/<slot>", and for what belongs to a block or a box that is not the whole tensor
  /// "/<block>": the box's offset, joined by dots. Unique in a state dict.
  std::string name() const;
  /// Numbers that it holds: by layout. Throws std::invalid_argument for a box
  /// with a negative side or more than 2^63 - 1 elements, and for a dimension that it has not.
  std::int64_t count() const;

  bool operator==(const StateTensor&) const = default;
};

/// Counters of one block.
struct BlockState {
  Box box = {};            ///< in the parameter's shape, small dimensions merged
  int failures = 0;        ///< refreshes in a row without all new roots
  std::int64_t phase = 0;  ///< of the staggered refresh
  bool operator==(const BlockState&) const = default;
};

/// What is not a tensor about one parameter.
struct ParameterState {
  std::string name = {};
  std::vector<std::int64_t> shape = {};  ///< as the caller gave it
  std::int64_t steps = 0;                ///< taken
  std::vector<RecipeField> recipe = {};  ///< see fields_of()
  Rates rates = {};                      ///< of its group
  std::vector<BlockState> blocks = {};   ///< those that are here

  bool operator==(const ParameterState&) const = default;
};

/// Counters of the optimizer, the same on all ranks.
struct Progress {
  std::int64_t attempts = 0;  ///< steps, skipped ones included
  std::int64_t taken = 0;     ///< steps that were applied
  int skipped_in_a_row = 0;
  bool operator==(const Progress&) const = default;
};

/// State of an optimizer except the values of the parameters, as owned host copies that may be held
/// and changed while training continues. Keyed by the names of parameters and by
/// boxes; never by position, group, or rank.
struct StateDict {
  static constexpr int newest_format = 1;

  int format = newest_format;
  std::string library = {};     ///< version that made it
  std::string arithmetic = {};  ///< see Backend::arithmetic()
  Progress progress = {};
  std::vector<ParameterState> parameters = {};  ///< by name
  std::vector<StateTensor> tensors = {};        ///< by name()

  /// Null where there is none. Looks at one after the other.
  const StateTensor* find(std::string_view name) const;
  /// Bytes of all tensors.
  std::int64_t bytes() const;

  bool operator==(const StateDict&) const = default;
};

struct StateDictOptions {
  /// Derived slots too. Off: smaller; a load recomputes them from the current statistics and rates,
  /// so results are not bit-equal to the saved run until the next refresh.
  bool derived = true;
  /// Off: metadata only; every `bytes` stays empty.
  bool contents = true;
};

/// Which ranks get a full state dict.
enum class Gather : std::uint8_t { everywhere, on_rank_0 };

/// Handling of state that belongs to a block which does not exist under the current blocking.
enum class OtherBlocks : std::uint8_t {
  refuse,
  restart  ///< it starts from its initial value
};

struct LoadOptions {
  /// Off: a parameter or tensor that the state dict lacks keeps its state, and what the optimizer
  /// does not know is left out. The report lists both.
  bool strict = true;
  /// Only parameters whose names start with it are loaded; the others keep their state, whatever
  /// the state dict says of them.
  std::string prefix = {};
  OtherBlocks other_blocks = OtherBlocks::refuse;
  /// Converts between float32 and float64, and lets the recipe's arithmetic differ. Other types
  /// are never converted.
  bool convert_types = false;
  /// The groups keep their rates. Otherwise they get those of the state dict, which must then be
  /// equal for the parameters of one group.
  bool keep_rates = false;
  /// Recipes may differ from those of the state dict. Otherwise only `blocking` may, because boxes
  /// say what fits, and `arithmetic` with convert_types.
  bool keep_recipes = false;
};

/// What a load found on this rank. Names are those of state tensors, or of parameters.
struct LoadReport {
  std::vector<std::string> missing = {};     ///< kept their state
  std::vector<std::string> unexpected = {};  ///< were left out
  std::vector<std::string> restarted = {};   ///< start from their initial value
  std::vector<std::string> recomputed = {};  ///< derived slots that the state dict lacked
  /// The state dict's, where it differs from the backend's: results then agree within tolerance,
  /// not bit for bit. Empty: they are the same.
  std::string other_arithmetic = {};
};

/// Read-only view of one slot of one block, in the backend's memory. Valid until the next step,
/// add_group() or load.
struct SlotView {
  const void* data = nullptr;  ///< [backend]
  Type type = Type::float32;
  std::vector<std::int64_t> extent = {};
  std::vector<std::int64_t> strides = {};  ///< in elements
  bool lower_triangle = false;             ///< only elements (i, j) with j <= i mean something
  bool upper_triangle = false;             ///< only elements (i, j) with j >= i mean something
};

}  // namespace shampoo
