// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <stdexcept>

#include "shampoo/state/state_names.h"
#include "shampoo/state_dict.h"

namespace shampoo {

std::string StateTensor::name() const { return state_name(parameter, slot, layout, shape, box); }

std::int64_t numbers_of(StateLayout layout, std::int64_t n) {
  if (layout == StateLayout::vector) return n;
  const std::int64_t square = grouping::numel(std::array{n, n});
  return layout == StateLayout::square ? square : square / 2 + (n + 1) / 2;
}

std::int64_t StateTensor::count() const {
  if (layout == StateLayout::elements) return grouping::numel(box.extent);
  if (dimension < 0 || dimension >= static_cast<int>(box.extent.size()))
    throw std::invalid_argument("state tensor '" + name() + "': dimension: must be in [0, " +
                                std::to_string(box.extent.size()) + "), got " +
                                std::to_string(dimension));
  const std::int64_t n = box.extent[dimension];
  return numbers_of(layout, n);
}

const StateTensor* StateDict::find(std::string_view name) const {
  const auto found = std::ranges::find_if(
      tensors, [&](const StateTensor& tensor) { return tensor.name() == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::int64_t StateDict::bytes() const {
  std::int64_t sum = 0;
  for (const StateTensor& tensor : tensors) sum += static_cast<std::int64_t>(tensor.bytes.size());
  return sum;
}

}  // namespace shampoo
