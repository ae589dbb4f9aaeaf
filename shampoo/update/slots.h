// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/rules/factor_layout.h"
#include "kernels/types.h"
#include "shampoo/recipe.h"
#include "shampoo/state_dict.h"

namespace shampoo {

/// Names of the slots that do not belong to a kind.
inline constexpr const char* first_moment_slot = "filtered_gradient";
inline constexpr const char* master_slot = "master";

/// One named piece of state of a block. Allocation, byte counts, export, import and checkpoints
/// follow from its layout alone.
struct Slot {
  enum class Initial : std::uint8_t { zero, identity, value, constant };

  std::string name;
  StateLayout layout = StateLayout::elements;
  int dimension = 0;  ///< dimension of the block; not read for elements
  Type type = Type::float32;
  /// identity: of a matrix, or its diagonal as a vector; value: that of the parameter; value and
  /// constant are for elements
  Initial initial = Initial::zero;
  double constant = 0;   ///< initial value of every element, for Initial::constant
  bool derived = false;  ///< true if it can be recomputed from other slots, by a refresh
  /// Another symmetric slot of the same dimension, declared before, whose array has room for this
  /// one: symmetric, or a vector of scales; empty: an array of its own.
  std::string shares = {};
  /// Elements in coordinates of the block's matrices: where those start anew, they do, too.
  bool in_basis = false;
  /// Of a symmetric slot, or of the array that this one shares.
  kernels::FactorLayout array = kernels::FactorLayout::with_root;
  Type array_type = Type::float32;  ///< type of the slot that this one shares the array of
};

/// Side of the slot's matrix or vector; 0 for elements.
std::int64_t side_of(const Slot& slot, std::span<const std::int64_t> extent);
/// Numbers of the slot for a block of this extent, as a state dict holds them.
std::int64_t count_of(const Slot& slot, std::span<const std::int64_t> extent);

/// The state of a block of this extent whose parameter has values of this type.
std::vector<Slot> slots_of(const Recipe& recipe, std::span<const std::int64_t> extent,
                           Type value_type);

/// Type of the numbers that the owner of a block sends.
Type wire_type(const Recipe& recipe, Type value_type);

/// Type of state and computation.
Type arithmetic_type(const Recipe& recipe);

}  // namespace shampoo
