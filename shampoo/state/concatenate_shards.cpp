// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/concatenate_shards.h"

#include <map>
#include <span>
#include <utility>

#include "shampoo/state/export_state.h"
#include "shampoo/state/reshard.h"

namespace shampoo {

namespace {

bool is_part(const StateTensor& tensor) {
  return tensor.layout == StateLayout::elements && tensor.box.extent != tensor.shape;
}

StateTensor joined(std::span<StateTensor* const> parts) {
  StateTensor whole = *parts.front();
  whole.box = {grouping::Shape(whole.shape.size(), 0), whole.shape};
  const auto count = static_cast<std::size_t>(whole.count());
  const std::size_t size = size_of(whole.type);
  whole.bytes.assign(whole.bytes.empty() ? 0 : count * size, std::byte{});
  if (whole.bytes.empty()) return whole;
  Assembly assembly{whole.bytes.data(), whole.count()};
  for (StateTensor* const part : parts) {
    copy_common({part->shape, part->box}, part->bytes.data(), {whole.shape, whole.box}, assembly,
                size);
    part->bytes = {};
  }
  return whole;
}

}  // namespace

void join_parts(StateDict& dict) {
  std::map<std::pair<std::string, std::string>, std::vector<StateTensor*>> parts;
  for (StateTensor& tensor : dict.tensors)
    if (is_part(tensor)) parts[{tensor.parameter, tensor.slot}].push_back(&tensor);

  std::vector<StateTensor> whole;
  for (const auto& [name, list] : parts) {
    std::int64_t elements = 0;
    for (const StateTensor* const part : list) elements += part->count();
    if (elements != grouping::numel(list.front()->shape)) continue;
    whole.push_back(joined(list));
    for (StateTensor* const part : list) part->parameter.clear();
  }
  std::erase_if(dict.tensors, [](const StateTensor& tensor) { return tensor.parameter.empty(); });
  for (StateTensor& tensor : whole) dict.tensors.push_back(std::move(tensor));
  sort_by_name(dict);
}

}  // namespace shampoo
