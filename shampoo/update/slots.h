// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/types.h"
#include "shampoo/recipe.h"
#include "shampoo/state_dict.h"

namespace shampoo {

/// Names of the elementwise slots.
inline constexpr const char* first_moment_slot = "filtered_gradient";
inline constexpr const char* graft_moment_slot = "grafting";
inline constexpr const char* momentum_slot = "momentum";
inline constexpr const char* master_slot = "master";

/// Of one dimension of a block.
std::string factor_slot(int dimension);
std::string root_slot(int dimension);

/// One named tile of state of a block. Allocation, byte counts and views follow from it.
struct Slot {
  enum class Layout : std::uint8_t {
    elements,        ///< one number per element of the block, initially 0 (master: the value)
    lower_triangle,  ///< of a factor, initially 0
    upper_triangle   ///< of a root, initially the identity; shares an array with the factor
  };
  std::string name;
  Layout layout = Layout::elements;
  int dimension = 0;  ///< of the block, for triangles
  Type type = Type::float32;
  bool derived = false;    ///< can be recomputed from other slots, at a refresh
  std::int64_t count = 0;  ///< numbers that it holds
};

/// How a state dict holds it.
StateLayout layout_of(const Slot& slot);

/// The state of a block of this extent whose parameter has values of this type.
std::vector<Slot> slots_of(const Recipe& recipe, std::span<const std::int64_t> extent,
                           Type value_type);

/// Type of state and computation.
Type arithmetic_type(const Recipe& recipe);

/// Inverse exponent of one dimension of blocks of an order; 0: the dimension is left alone.
double exponent_of(const RootInverse& preconditioner, int order, int dimension);

/// Whether the dimension has a factor.
bool has_factor(const Recipe& recipe, int order, int dimension);

}  // namespace shampoo
