// SPDX-License-Identifier: Apache-2.0
#include "tests/grouping/sample_groups.h"

#include <array>

#include "tests/support/models.h"

namespace shampoo::test {
namespace {

using grouping::Box;
using grouping::PlannedGroup;
using grouping::PlannedParameter;
using grouping::Shape;
using grouping::Work;

/// In [0, count). Not a standard distribution: these differ between standard libraries.
int below(int count, std::mt19937& random) { return static_cast<int>(random() % count); }

}  // namespace

Work root_inverse_work(const Shape& extent, std::int64_t interval) {
  const std::int64_t elements = grouping::numel(extent);
  Work work{30 * elements, 4 * elements, 8 * elements};
  for (std::int64_t d : extent) {
    work.cost += 25 * d * d * d / interval + 2 * elements * d + elements * (d + 1);
    work.state += 4 * d * (d + 1);
  }
  return work;
}

std::int64_t root_work(const Shape& extent) {
  std::int64_t work = 0;
  for (std::int64_t d : extent) work += 25 * d * d * d;
  return work;
}

PlannedParameter parameter(const std::string& name, const Shape& shape, std::int64_t block_size,
                           int target_order) {
  PlannedParameter made{
      name, grouping::merge_small_dimensions(shape, block_size, target_order), 4, {}};
  for (const Box& box : grouping::cut(made.shape, block_size))
    made.blocks.push_back({box, root_inverse_work(box.extent), root_work(box.extent)});
  return made;
}

std::vector<PlannedGroup> groups_of(const std::string& model, int groups) {
  const Model read = load_model(model);
  std::vector<PlannedGroup> made(groups, {"root inverse", {}, 10});
  for (std::size_t i = 0; i < read.tensors.size(); ++i)
    made[i % groups].parameters.push_back(
        parameter(read.tensors[i].name, read.tensors[i].shape, read.block_size));
  return made;
}

std::vector<PlannedGroup> random_groups(std::mt19937& random, const std::string& prefix) {
  constexpr std::array block_sizes = {std::int64_t{1}, std::int64_t{2}, std::int64_t{3},
                                      std::int64_t{5}, grouping::never_cut};
  constexpr std::array orders = {1, 2, 3, grouping::any_order};
  constexpr std::array sides = {0, 1, 1, 2, 3, 4, 5, 6, 7, 9, 2, 3, 4, 5};
  std::vector<PlannedGroup> groups(1 + below(5, random));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const int recipe = below(3, random);
    groups[g].recipe = std::string(1, static_cast<char>('a' + recipe));
    groups[g].interval = std::array{1, 3, 4}[recipe];
    const int parameters = below(6, random);
    for (int p = 0; p < parameters; ++p) {
      Shape shape(below(5, random));
      for (std::int64_t& side : shape) side = sides[below(sides.size(), random)];
      const std::int64_t block_size = block_sizes[below(block_sizes.size(), random)];
      const int order = orders[below(orders.size(), random)];
      groups[g].parameters.push_back(parameter(prefix + std::to_string(g) + "." + std::to_string(p),
                                               shape, block_size, order));
      groups[g].parameters.back().element_bytes = std::int64_t{1} << below(4, random);
    }
  }
  return groups;
}

}  // namespace shampoo::test
