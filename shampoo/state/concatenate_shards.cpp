// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/concatenate_shards.h"

#include <map>
#include <span>
#include <utility>

#include "shampoo/state/export_state.h"
#include "shampoo/state/reshard.h"

namespace shampoo {

namespace {

bool is_shard(const StateTensor& tensor) {
  return tensor.layout == StateLayout::elements && tensor.box.extent != tensor.shape;
}

StateTensor concatenated(std::span<StateTensor* const> shards) {
  StateTensor whole = *shards.front();
  whole.box = {grouping::Shape(whole.shape.size(), 0), whole.shape};
  const auto count = static_cast<std::size_t>(whole.count());
  const std::size_t size = size_of(whole.type);
  whole.bytes.assign(whole.bytes.empty() ? 0 : count * size, std::byte{});
  if (whole.bytes.empty()) return whole;
  SliceBuffer buffer{whole.bytes.data(), whole.count()};
  for (StateTensor* const shard : shards) {
    copy_common({shard->shape, shard->box}, shard->bytes.data(), {whole.shape, whole.box}, buffer,
                size);
    shard->bytes = {};
  }
  return whole;
}

}  // namespace

void concatenate_shards(StateDict& dict) {
  std::map<std::pair<std::string, std::string>, std::vector<StateTensor*>> shards;
  for (StateTensor& tensor : dict.tensors)
    if (is_shard(tensor)) shards[{tensor.parameter, tensor.slot}].push_back(&tensor);

  std::vector<StateTensor> whole;
  for (const auto& [name, list] : shards) {
    std::int64_t elements = 0;
    for (const StateTensor* const shard : list) elements += shard->count();
    if (elements != grouping::numel(list.front()->shape)) continue;
    whole.push_back(concatenated(list));
    for (StateTensor* const shard : list) shard->parameter.clear();
  }
  std::erase_if(dict.tensors, [](const StateTensor& tensor) { return tensor.parameter.empty(); });
  for (StateTensor& tensor : whole) dict.tensors.push_back(std::move(tensor));
  sort_by_name(dict);
}

}  // namespace shampoo
