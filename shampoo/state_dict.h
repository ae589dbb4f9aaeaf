// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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
  std::vector<std::int64_t> shape = {};  ///< shape of the parameter, small dimensions merged
  Box box = {};                          ///< the part of the parameter held here
  StateLayout layout = StateLayout::elements;
  /// Dimension of the block, for layouts other than `elements`: n is box.extent[dimension].
  int dimension = 0;
  Type type = Type::float32;
  std::vector<std::byte> bytes = {};  ///< values in the byte order of the host

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
  Box box = {};      ///< box in ParameterState::merged_shape
  int failures = 0;  ///< consecutive refreshes that failed for at least one root
  bool operator==(const BlockState&) const = default;
};

/// State of one parameter except its tensors.
struct ParameterState {
  std::string name = {};
  std::vector<std::int64_t> shape = {};  ///< shape given by the caller
  /// The same with small dimensions merged, of which blocks are boxes.
  std::vector<std::int64_t> merged_shape = {};
  std::int64_t steps = 0;  ///< number of steps taken
  /// Sum of learning_rate^power over these steps with ScheduleFree; otherwise 0.
  double averaging_weight_sum = 0;
  std::vector<RecipeField> recipe = {};  ///< fields of the recipe, see fields_of()
  Rates rates = {};                      ///< rates of this parameter
  /// Group::base_rates, if the group has schedules.
  std::optional<Rates> base_rates = std::nullopt;
  /// Names of the rates that it has for itself: see Group::set_rate(). The others are its group's.
  std::vector<std::string> own_rates = {};
  /// Group::rates, if it has own ones: of those that all parameters have for themselves, `rates`
  /// has no value.
  std::optional<Rates> group_rates = std::nullopt;
  std::vector<BlockState> blocks = {};  ///< blocks held here

  bool operator==(const ParameterState&) const = default;
};

/// Counters of the optimizer, the same on all ranks.
struct Progress {
  std::int64_t attempts = 0;  ///< number of steps, skipped ones included
  std::int64_t taken = 0;     ///< number of steps applied
  int skipped_in_a_row = 0;
  double loss_scale = 0;        ///< of a DynamicLossScale; 0: there was none
  std::int64_t good_steps = 0;  ///< steps in a row without overflow since the scale last changed
  std::vector<double> gradient_norms = {};  ///< window of a SpikeGuard, the oldest first
  bool operator==(const Progress&) const = default;
};

/// State of an optimizer except the values of the parameters, as owned host copies that may be held
/// and changed while training continues. Keyed by the names of parameters and by
/// boxes; never by position, group, or rank.
struct StateDict {
  static constexpr int newest_format = 1;

  int format = newest_format;
  std::string library = {};     ///< version of the library that made the state dict
  std::string arithmetic = {};  ///< arithmetic of the backend, see Backend::arithmetic()
  Progress progress = {};
  std::vector<ParameterState> parameters = {};  ///< sorted by name
  std::vector<StateTensor> tensors = {};        ///< sorted by name()

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
  /// The state starts from its initial value, while the step counter goes on. Refused without
  /// grafting: the direction of new statistics would be too long.
  restart
};

struct LoadOptions {
  /// Off: a parameter or tensor that the state dict lacks keeps its state, and what the optimizer
  /// does not know is left out. The report lists both. A `prefix` may then be of no parameter.
  bool strict = true;
  /// Only parameters whose names start with it are loaded; the others keep their state, whatever
  /// the state dict says of them.
  std::string prefix = {};
  /// The optimizer's name for a parameter of the state dict; empty: the same. It gives the same on
  /// all ranks, and no two parameters one name. `prefix` is that of the optimizer's names.
  std::function<std::string(const std::string& saved)> rename = {};
  OtherBlocks other_blocks = OtherBlocks::refuse;
  /// Converts between float32 and float64, and lets the recipe's arithmetic differ. Other types
  /// are never converted.
  bool convert_types = false;
  /// The groups keep their rates. Otherwise they get those of the state dict, which must then be
  /// equal for the parameters of one group, apart from those that a parameter has for itself.
  bool keep_rates = false;
  /// Recipes may differ from those of the state dict. Otherwise only `blocking` may, because boxes
  /// say what fits, and `arithmetic` with convert_types. A field that the state dict lacks counts
  /// as the default of its declaration.
  bool keep_recipes = false;
  /// The same for some fields of recipes and all below them, as fields_of() names them:
  /// {"refresh.every", "preconditioner.solver"}.
  std::vector<std::string> keep_recipe_fields = {};
};

/// Result of a load on this rank. Names are those of state tensors or of parameters.
struct LoadReport {
  /// Names that the state dict lacks; their state is unchanged.
  std::vector<std::string> missing = {};
  /// Names found only in the state dict, which were ignored.
  std::vector<std::string> unexpected = {};
  /// Parameters that are frozen, whose state was left out, also by `strict`: it is in no later
  /// save.
  std::vector<std::string> frozen = {};
  std::vector<std::string> restarted = {};  ///< names whose state starts from its initial value
  /// Slots that a refresh computes, which the state dict lacks, or has in their initial state from
  /// before its own recipe's first refresh, where that of the recipe lies within the steps.
  std::vector<std::string> recomputed = {};
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
  std::vector<std::int64_t> strides = {};  ///< strides in elements
  bool lower_triangle = false;             ///< true if only elements (i, j) with j <= i are defined
  bool upper_triangle = false;             ///< true if only elements (i, j) with j >= i are defined
  /// True if the numbers are the rows of the lower triangle of a symmetric matrix, one after the
  /// other.
  bool packed_triangle = false;
};

}  // namespace shampoo
