// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/tensor_shard.h"

namespace shampoo::checkpoint {

std::string key_of(const StateTensor& tensor) { return std::string(state_prefix) + tensor.name(); }

std::vector<std::int64_t> shape_of(const StateTensor& tensor) {
  if (tensor.layout == StateLayout::elements) return tensor.box.extent;
  const std::int64_t n = tensor.box.extent.at(static_cast<std::size_t>(tensor.dimension));
  if (tensor.layout == StateLayout::square) return {n, n};
  return {tensor.count()};
}

StateTensor state_tensor(const SavedParameter& parameter, const SavedBlock& block,
                         std::size_t slot) {
  const SavedSlot& saved = parameter.slots.at(slot);
  return {.parameter = parameter.state.name,
          .slot = saved.name,
          .shape = parameter.merged_shape,
          .box = block.state.box,
          .layout = saved.layout,
          .dimension = saved.dimension,
          .type = type_of(saved.dtype).value()};
}

TensorShard shard_of(const SavedParameter& parameter, const SavedBlock& block, std::size_t slot) {
  const StateTensor tensor = state_tensor(parameter, block, slot);
  return {key_of(tensor), dtype_of(tensor.type), shape_of(tensor), block.file,
          block.checksums.at(slot)};
}

TensorShard shard_of(const SavedUserTensor& tensor) {
  return {std::string(user_prefix) + tensor.name, tensor.dtype, tensor.shape, tensor.file,
          tensor.checksum};
}

}  // namespace shampoo::checkpoint
