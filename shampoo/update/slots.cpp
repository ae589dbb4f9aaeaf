// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/slots.h"

#include <algorithm>

namespace shampoo {

std::string factor_slot(int dimension) { return "factor/" + std::to_string(dimension); }
std::string root_slot(int dimension) { return "root/" + std::to_string(dimension); }

Type arithmetic_type(const Recipe& recipe) {
  return recipe.arithmetic == Arithmetic::float64 ? Type::float64 : Type::float32;
}

StateLayout layout_of(const Slot& slot) {
  return slot.layout == Slot::Layout::elements ? StateLayout::elements : StateLayout::symmetric;
}

double exponent_of(const RootInverse& preconditioner, int order, int dimension) {
  // 1 / (2 order): a product over all dimensions scales as the inverse square root.
  double exponent = 1.0 / (2 * std::max(order, 1));
  for (const Exponent& e : preconditioner.exponents)
    if (e.order == order && (!e.dimension || *e.dimension == dimension)) exponent = e.value;
  return exponent;
}

bool has_factor(const Recipe& recipe, int order, int dimension) {
  return recipe.refresh.first &&
         exponent_of(std::get<RootInverse>(recipe.preconditioner), order, dimension) != 0;
}

std::vector<Slot> slots_of(const Recipe& recipe, std::span<const std::int64_t> extent,
                           Type value_type) {
  const Type type = arithmetic_type(recipe);
  const std::int64_t elements = grouping::numel(grouping::Shape(extent.begin(), extent.end()));
  std::vector<Slot> slots;

  const int order = static_cast<int>(extent.size());
  for (int k = 0; k < order; ++k) {
    if (!has_factor(recipe, order, k)) continue;
    const std::int64_t n = extent[k];
    const std::int64_t triangle = n * (n + 1) / 2;
    slots.push_back({factor_slot(k), Slot::Layout::lower_triangle, k, type, false, triangle});
    slots.push_back({root_slot(k), Slot::Layout::upper_triangle, k, type, true, triangle});
  }

  const auto add_elements = [&](const char* name, Type of) {
    slots.push_back({name, Slot::Layout::elements, 0, of, false, elements});
  };
  add_elements(first_moment_slot, type);
  if (recipe.grafting && !std::holds_alternative<Sgd>(*recipe.grafting))
    add_elements(graft_moment_slot, type);
  if (std::holds_alternative<Momentum>(recipe.averaging)) add_elements(momentum_slot, type);
  if (has_master(value_type)) add_elements(master_slot, Type::float32);
  return slots;
}

}  // namespace shampoo
