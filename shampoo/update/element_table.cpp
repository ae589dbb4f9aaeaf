// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/element_table.h"

#include "shampoo/update/slots.h"
#include "shampoo/update/strided_tiles.h"

namespace shampoo {

namespace {

StridedTensor strided(const Parameter& parameter, const grouping::Shape& merged) {
  const auto strides = [&](const Tensor& tensor) {
    return tensor.strides.empty() ? row_major_strides(parameter.shape) : tensor.strides;
  };
  return StridedTensor(parameter.shape, merged, strides(parameter.value),
                       strides(parameter.gradient));
}

template <typename T>
void send(kernels::Backend& backend, const std::vector<T>& from, kernels::Buffer& to) {
  to = kernels::Buffer(backend, from.size() * sizeof(T));
  if (!from.empty()) backend.upload(to.data(), from.data(), from.size() * sizeof(T));
}

}  // namespace

TensorTable::TensorTable(kernels::StagedArrays& columns, std::size_t parameters)
    : values_(columns.add<void*>(parameters)),
      gradients_(columns.add<const void*>(parameters)),
      value_types_(columns.add<Type>(parameters)),
      gradient_types_(columns.add<Type>(parameters)) {}

void TensorTable::set_values(std::span<const RegisteredParameter> parameters) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    values_[p] = parameters[p].parameter().value.data;
    value_types_[p] = parameters[p].parameter().value.type;
    gradient_types_[p] = parameters[p].parameter().gradient.type;
  }
}

void TensorTable::set_gradients(std::span<const RegisteredParameter> parameters) {
  for (std::size_t p = 0; p < parameters.size(); ++p)
    gradients_[p] = parameters[p].parameter().gradient.data;
}

kernels::Tensors TensorTable::tensors() const {
  return {values_.data(), gradients_.data(), value_types_.data(), gradient_types_.data()};
}

kernels::Block exchanged_block(const RegisteredParameter& parameter, int row,
                               std::int64_t segment) {
  kernels::Block block;
  block.tensor = row;
  block.segment = segment;
  const Type type = parameter.parameter().value.type;
  const Recipe& recipe = parameter.group->recipe();
  block.wire_type = wire_type(recipe, type);
  block.is_value = recipe.communication.values || has_master(type);
  return block;
}

void ElementTable::append(const RegisteredParameter& parameter, const grouping::Box& box,
                          kernels::Block block, std::int64_t flat) {
  append(parameter.parameter(), parameter.merged, box, block, flat);
}

void ElementTable::append(const Parameter& parameter, const grouping::Shape& merged,
                          const grouping::Box& box, kernels::Block block, std::int64_t flat) {
  strided(parameter, merged).append(box, flat, block, tiles_);
  for (std::int32_t p = block.first_tile; p < block.first_tile + block.tile_count; ++p) {
    tiles_[p].block = static_cast<std::int32_t>(blocks_.size());
    tiles_[p].tensor = block.tensor;
  }
  blocks_.push_back(block);
}

void ElementTable::append_whole(const Parameter& parameter, int row, Type arithmetic) {
  const grouping::Shape merged =
      grouping::merge_small_dimensions(parameter.shape, grouping::never_cut, grouping::any_order);
  kernels::Block block;
  block.tensor = row;
  block.scans_in_float32 = arithmetic == Type::float32;
  for (const grouping::Box& box : grouping::cut(merged, grouping::never_cut))
    append(parameter, merged, box, block, 0);
}

void ElementTable::read_values_as_gradients() {
  for (kernels::Tile& tile : tiles_) {
    tile.gradient = tile.value;
    tile.gradient_row = tile.value_row;
    tile.gradient_column = tile.value_column;
  }
}

void ElementTable::write_gradients_as_values() {
  for (kernels::Tile& tile : tiles_) {
    tile.value = tile.gradient;
    tile.value_row = tile.gradient_row;
    tile.value_column = tile.gradient_column;
  }
}

std::vector<double> ElementTable::sums(kernels::Backend& backend, std::size_t tensors) const {
  std::vector<double> partials(tiles_.size()), sums(tensors, 0);
  backend.download(partials.data(), partials_.data(), partials.size() * sizeof(double));
  backend.synchronize();
  for (std::size_t t = 0; t < tiles_.size(); ++t)
    sums[static_cast<std::size_t>(tiles_[t].tensor)] += partials[t];
  return sums;
}

void ElementTable::upload(kernels::Backend& backend) {
  send(backend, tiles_, sent_tiles_);
  send(backend, blocks_, sent_blocks_);
  partials_ = kernels::Buffer(backend, 3 * tiles_.size() * sizeof(double));
}

kernels::TileTable ElementTable::elements(Type arithmetic, const kernels::Tensors& tensors) const {
  return {arithmetic,
          static_cast<const kernels::Tile*>(sent_tiles_.data()),
          static_cast<std::int64_t>(tiles_.size()),
          static_cast<const kernels::Block*>(sent_blocks_.data()),
          block_count(),
          tensors,
          static_cast<double*>(partials_.data())};
}

std::int64_t ElementTable::bytes() const {
  return static_cast<std::int64_t>(sent_tiles_.bytes() + sent_blocks_.bytes() + partials_.bytes());
}

}  // namespace shampoo
