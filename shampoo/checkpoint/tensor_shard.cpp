// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/tensor_shard.h"

#include <utility>

namespace shampoo::checkpoint {

std::string key_of(const StateTensor& tensor) { return std::string(state_prefix) + tensor.name(); }

std::vector<std::int64_t> shape_of(const StateTensor& tensor) {
  if (tensor.layout == StateLayout::elements) return tensor.box.extent;
  const std::int64_t n = tensor.box.extent.at(static_cast<std::size_t>(tensor.dimension));
  if (tensor.layout == StateLayout::square) return {n, n};
  return {tensor.count()};
}

StateTensor state_tensor(const SavedParameter& parameter, const SavedSlot& slot,
                         grouping::Box box) {
  return {.parameter = parameter.name,
          .slot = slot.name,
          .shape = parameter.merged_shape,
          .box = std::move(box),
          .layout = slot.layout,
          .dimension = slot.dimension,
          .type = type_of(slot.dtype).value()};
}

TensorShard shard_of(const StateTensor& tensor, std::size_t file) {
  return {key_of(tensor), dtype_of(tensor.type), shape_of(tensor), file};
}

TensorShard shard_of(const SavedUserTensor& tensor) {
  return {std::string(user_prefix) + tensor.name, tensor.dtype, tensor.shape, tensor.file};
}

}  // namespace shampoo::checkpoint
