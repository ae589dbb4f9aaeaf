// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/block_work.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "shampoo/update/slots.h"

namespace shampoo {

namespace {

/// Multiplications of one symmetric eigendecomposition with eigenvectors and of the product that
/// forms the root, over n^3 (LAPACK syevd: reduction 4/3, divide and conquer up to 8/3,
/// back-transformation 2, product 1), times 3.5, because half of them run at the speed of memory.
constexpr std::int64_t root_products = 25;

/// Passes over an element in a step, in the time of multiplications.
constexpr std::int64_t elementwise_products = 30;

/// Eigensolvers count their workspace of 2 n^2 numbers in 32 bits.
constexpr std::int64_t longest_side = 32'000;

}  // namespace

void cut(RegisteredParameter& registered) {
  const Recipe& recipe = registered.group->recipe();
  const Blocking& blocking = recipe.blocking;
  registered.merged = grouping::merge_small_dimensions(registered.parameter().shape, blocking.size,
                                                       blocking.target_order);
  registered.boxes = grouping::cut(registered.merged, blocking.size);
  const int order = static_cast<int>(registered.merged.size());
  for (int k = 0; k < order; ++k)
    if (has_factor(recipe, order, k) &&
        std::min(registered.merged[k], blocking.size) > longest_side)
      throw std::invalid_argument(
          "group " + std::to_string(registered.group_index) + ", parameter '" +
          registered.parameter().name + "': recipe.blocking.size: a side of " +
          std::to_string(registered.merged[k]) + " must be cut to at most " +
          std::to_string(longest_side) + " to have a factor");
}

grouping::Work work_of(const Recipe& recipe, const grouping::Box& box, Type value_type) {
  const std::int64_t elements = grouping::numel(box.extent);
  const int order = static_cast<int>(box.extent.size());
  grouping::Work work;
  work.cost = elementwise_products * elements;
  for (int k = 0; k < order; ++k) {
    if (!has_factor(recipe, order, k)) continue;
    const std::int64_t n = box.extent[k];
    // a root every so many steps; G x G, half of it; G x root
    work.cost +=
        root_products * n * n * n / recipe.refresh.every + elements * (n + 1) + 2 * elements * n;
  }
  work.bytes =
      elements * static_cast<std::int64_t>(size_of(recipe.shipping.type.value_or(value_type)));
  for (const Slot& slot : slots_of(recipe, box.extent, value_type))
    work.state += slot.count * static_cast<std::int64_t>(size_of(slot.type));
  return work;
}

std::vector<std::int64_t> stagger(const Recipe& recipe, std::span<const grouping::Work> works) {
  std::vector<std::int64_t> phases(works.size(), 0);
  if (!recipe.refresh.staggered) return phases;
  const auto steps = std::min(recipe.refresh.every, static_cast<std::int64_t>(works.size()));
  std::vector<std::int64_t> load(static_cast<std::size_t>(steps), 0);
  for (std::size_t b = 0; b < works.size(); ++b) {
    const auto idlest = std::min_element(load.begin(), load.end());
    *idlest += works[b].cost;
    phases[b] = idlest - load.begin();
  }
  return phases;
}

}  // namespace shampoo
