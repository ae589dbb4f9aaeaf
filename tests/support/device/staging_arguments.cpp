// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/staging_arguments.h"

#include <algorithm>

namespace shampoo::test {

namespace {

using kernels::PassContext;
using kernels::Selection;
using kernels::Stack;
using kernels::Tile;
using kernels::TileTable;

std::int64_t elements_of(const Tile& tile) {
  return static_cast<std::int64_t>(tile.rows) * tile.columns;
}

/// From a tensor's first element to the last one of a tile.
void note_tile(Staging& staging, const void* base, Type type, const Tile& tile, std::int64_t first,
               std::int64_t row, std::int64_t column) {
  if (elements_of(tile) == 0) return;
  const std::int64_t last = first + (tile.rows - 1) * row + (tile.columns - 1) * column;
  staging.note(base, static_cast<std::size_t>(last + 1) * size_of(type));
}

}  // namespace

std::int64_t tensors_of(const TileTable& elements) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < elements.tile_count; ++i)
    count = std::max<std::int64_t>(count, elements.tiles[i].tensor + 1);
  return count;
}

void note(Staging& staging, const TileTable& elements) {
  staging.note_array(elements.tiles, elements.tile_count);
  staging.note_array(elements.blocks, elements.block_count);
  staging.note_array(elements.partials, 3 * elements.tile_count);
  const kernels::Tensors& tensors = elements.tensors;
  const std::int64_t count = tensors_of(elements);
  staging.note_array(tensors.value_types, count);
  if (tensors.gradients) staging.note_array(tensors.gradient_types, count);
  for (std::int64_t i = 0; i < elements.tile_count; ++i) {
    const Tile& tile = elements.tiles[i];
    note_tile(staging, tensors.values[tile.tensor], tensors.value_types[tile.tensor], tile,
              tile.value, tile.value_row, tile.value_column);
    if (!tensors.gradients) continue;
    note_tile(staging, tensors.gradients[tile.tensor], tensors.gradient_types[tile.tensor], tile,
              tile.gradient, tile.gradient_row, tile.gradient_column);
  }
}

TileTable staged(Staging& staging, const TileTable& elements) {
  TileTable copy = elements;
  const std::int64_t count = tensors_of(elements);
  copy.tiles = staging.at(elements.tiles);
  copy.blocks = staging.at(elements.blocks);
  copy.partials = staging.at(elements.partials);
  copy.tensors.values = staging.table(elements.tensors.values, count);
  if (elements.tensors.gradients)
    copy.tensors.gradients = staging.table(elements.tensors.gradients, count);
  copy.tensors.value_types = staging.at(elements.tensors.value_types);
  copy.tensors.gradient_types = staging.at(elements.tensors.gradient_types);
  return copy;
}

void note(Staging& staging, const PassContext& context) {
  note(staging, context.elements);
  staging.note_array(context.modes, context.elements.block_count);
  staging.note_array(context.coefficients, context.elements.block_count);
  staging.note_array(context.gradient_scale,
                     context.scale_stride == 0 ? 1 : tensors_of(context.elements));
  staging.note_array(context.proceed, 1);
}

PassContext staged(Staging& staging, const PassContext& context, const TileTable& elements) {
  return {elements,
          staging.at(context.modes),
          staging.at(context.coefficients),
          staging.at(context.gradient_scale),
          staging.at(context.proceed),
          context.scale_stride,
          context.gradient_limit};
}

void note_slot(Staging& staging, const TileTable& elements, const void* slot) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < elements.block_count; ++i)
    count = std::max(count, elements.blocks[i].flat + elements.blocks[i].elements);
  staging.note(slot, static_cast<std::size_t>(count) * size_of(elements.arithmetic));
}

void note_masters(Staging& staging, const TileTable& elements, const void* masters) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < elements.block_count; ++i)
    if (elements.blocks[i].master >= 0)
      count = std::max(count, elements.blocks[i].master + elements.blocks[i].elements);
  staging.note(masters, static_cast<std::size_t>(count) * sizeof(float));
}

void note_segment(Staging& staging, const TileTable& elements, const void* segment,
                  const Tile& tile, std::int64_t offset) {
  const kernels::Block& block = elements.blocks[tile.block];
  const auto size = static_cast<std::int64_t>(size_of(block.wire_type));
  staging.note(segment,
               static_cast<std::size_t>(block.segment + (offset + elements_of(tile)) * size));
}

void note_segments(Staging& staging, const TileTable& elements, const void* segments) {
  for (std::int64_t i = 0; i < elements.tile_count; ++i) {
    const Tile& tile = elements.tiles[i];
    note_segment(staging, elements, segments, tile, tile.flat - elements.blocks[tile.block].flat);
  }
}

void note(Staging& staging, const TileTable& elements, std::span<const Stack> stacks,
          std::span<const Selection> selected) {
  for (const Selection& selection : selected) staging.note_array(selection.blocks, selection.count);
  for (const Stack& stack : stacks)
    for (std::size_t k = 0; k < stack.extent.size(); ++k) {
      const std::int64_t n = stack.extent[k];
      const auto size = static_cast<std::int64_t>(size_of(elements.arithmetic));
      const auto bytes = [&](std::int64_t each) {
        return static_cast<std::size_t>(stack.count * each * size);
      };
      staging.note(stack.factors[k], bytes(kernels::array_elements(stack.layout, n, size)));
      if (!stack.bases.empty()) staging.note(stack.bases[k], bytes(n * n));
    }
}

std::vector<Stack> staged(Staging& staging, std::span<const Stack> stacks) {
  std::vector<Stack> result(stacks.begin(), stacks.end());
  for (Stack& stack : result)
    for (std::vector<void*>* const arrays : {&stack.factors, &stack.bases})
      for (void*& array : *arrays) array = staging.at(array);
  return result;
}

std::vector<Selection> staged(Staging& staging, std::span<const Selection> selected) {
  std::vector<Selection> result(selected.begin(), selected.end());
  for (Selection& selection : result) selection.blocks = staging.at(selection.blocks);
  return result;
}

void note(Staging& staging, const TileTable& elements, const kernels::GradientPass& pass) {
  note_masters(staging, elements, pass.masters);
  for (const void* const slot :
       {pass.first_moment, pass.preconditioner.second_moment, pass.preconditioner.companion,
        pass.grafting ? pass.grafting->second_moment : nullptr,
        pass.grafting ? pass.grafting->companion : nullptr, pass.direction})
    note_slot(staging, elements, slot);
  for (const double* const norms : {pass.grafting_norms, pass.direction_norms})
    staging.note_array(norms, elements.block_count);
}

kernels::GradientPass staged(Staging& staging, const kernels::GradientPass& pass) {
  kernels::GradientPass copy = pass;
  copy.masters = staging.at(pass.masters);
  copy.first_moment = staging.at(pass.first_moment);
  for (kernels::ElementwiseDirection* const direction :
       {&copy.preconditioner, copy.grafting ? &*copy.grafting : nullptr}) {
    if (direction == nullptr) continue;
    direction->second_moment = staging.at(direction->second_moment);
    direction->companion = staging.at(direction->companion);
  }
  copy.direction = staging.at(pass.direction);
  copy.grafting_norms = staging.at(pass.grafting_norms);
  copy.direction_norms = staging.at(pass.direction_norms);
  return copy;
}

void note(Staging& staging, const TileTable& elements, const kernels::UpdatePass& pass) {
  note_masters(staging, elements, pass.masters);
  note_slot(staging, elements, pass.direction);
  note_slot(staging, elements, pass.averaging_state);
  for (const double* const norms : {pass.grafting_norms, pass.direction_norms})
    staging.note_array(norms, elements.block_count);
  note_segments(staging, elements, pass.segment);
  note_slot(staging, elements, pass.value_average.average);
  staging.note_array(pass.value_average.weights, elements.block_count);
  staging.note_array(pass.rate_factor, 1);
  staging.note_array(pass.scaling.sums, elements.block_count);
  staging.note_array(pass.projection.squared_norms, elements.block_count);
  staging.note_array(pass.non_finite, 1);
}

kernels::UpdatePass staged(Staging& staging, const kernels::UpdatePass& pass) {
  kernels::UpdatePass copy = pass;
  copy.averaging_state = staging.at(pass.averaging_state);
  copy.direction = staging.at(pass.direction);
  copy.grafting_norms = staging.at(pass.grafting_norms);
  copy.direction_norms = staging.at(pass.direction_norms);
  copy.masters = staging.at(pass.masters);
  copy.segment = staging.at(pass.segment);
  copy.value_average.average = staging.at(pass.value_average.average);
  copy.value_average.weights = staging.at(pass.value_average.weights);
  copy.rate_factor = staging.at(pass.rate_factor);
  copy.scaling.sums = staging.at(pass.scaling.sums);
  copy.projection.squared_norms = staging.at(pass.projection.squared_norms);
  copy.non_finite = staging.at(pass.non_finite);
  return copy;
}

}  // namespace shampoo::test
