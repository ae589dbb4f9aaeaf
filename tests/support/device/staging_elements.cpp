// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "tests/support/device/staging.h"
#include "tests/support/device/staging_backend.h"

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

std::int64_t tensors_of(const TileTable& elements) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < elements.tile_count; ++i)
    count = std::max<std::int64_t>(count, elements.tiles[i].tensor + 1);
  return count;
}

/// From a tensor's first element to the last one of a tile.
void note_tile(Staging& staging, const void* base, Type type, const Tile& tile, std::int64_t first,
               std::int64_t row, std::int64_t column) {
  if (elements_of(tile) == 0) return;
  const std::int64_t last = first + (tile.rows - 1) * row + (tile.columns - 1) * column;
  staging.note(base, static_cast<std::size_t>(last + 1) * size_of(type));
}

void note(Staging& staging, const TileTable& elements) {
  staging.note_array(elements.tiles, elements.tile_count);
  staging.note_array(elements.blocks, elements.block_count);
  staging.note_array(elements.partials, 2 * elements.tile_count);
  const kernels::Tensors& tensors = elements.tensors;
  const std::int64_t count = tensors_of(elements);
  staging.note_array(tensors.value_types, count);
  staging.note_array(tensors.gradient_types, count);
  for (std::int64_t i = 0; i < elements.tile_count; ++i) {
    const Tile& tile = elements.tiles[i];
    note_tile(staging, tensors.values[tile.tensor], tensors.value_types[tile.tensor], tile,
              tile.value, tile.value_row, tile.value_column);
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
  copy.tensors.gradients = staging.table(elements.tensors.gradients, count);
  copy.tensors.value_types = staging.at(elements.tensors.value_types);
  copy.tensors.gradient_types = staging.at(elements.tensors.gradient_types);
  return copy;
}

void note(Staging& staging, const PassContext& context) {
  note(staging, context.elements);
  staging.note_array(context.modes, context.elements.block_count);
  staging.note_array(context.coefficients, context.elements.block_count);
  staging.note_array(context.gradient_scale, 1);
  staging.note_array(context.proceed, 1);
}

PassContext staged(Staging& staging, const PassContext& context, const TileTable& elements) {
  return {elements, staging.at(context.modes), staging.at(context.coefficients),
          staging.at(context.gradient_scale), staging.at(context.proceed)};
}

/// A slot with one element for each of the flat elements.
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

/// `offset` elements into the part of the segment that the tile's block has.
void note_segment(Staging& staging, const TileTable& elements, const void* segment,
                  const Tile& tile, std::int64_t offset) {
  const kernels::Block& block = elements.blocks[tile.block];
  const auto size = static_cast<std::int64_t>(size_of(block.wire_type));
  staging.note(segment,
               static_cast<std::size_t>(block.segment + (offset + elements_of(tile)) * size));
}

/// With tiles that count from the flat slots.
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
    for (std::size_t k = 0; k < stack.extent.size(); ++k)
      staging.note(stack.factors[k],
                   static_cast<std::size_t>(stack.count * stack.extent[k] * (stack.extent[k] + 1)) *
                       size_of(elements.arithmetic));
}

std::vector<Stack> staged(Staging& staging, std::span<const Stack> stacks) {
  std::vector<Stack> result(stacks.begin(), stacks.end());
  for (Stack& stack : result)
    for (void*& array : stack.factors) array = staging.at(array);
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
}

kernels::UpdatePass staged(Staging& staging, const kernels::UpdatePass& pass) {
  kernels::UpdatePass copy = pass;
  copy.averaging_state = staging.at(pass.averaging_state);
  copy.direction = staging.at(pass.direction);
  copy.grafting_norms = staging.at(pass.grafting_norms);
  copy.direction_norms = staging.at(pass.direction_norms);
  copy.masters = staging.at(pass.masters);
  copy.segment = staging.at(pass.segment);
  return copy;
}

}  // namespace

void StagingBackend::scan(const TileTable& gradients, const double* gradient_scale, bool skips,
                          kernels::ScanResult* result) {
  Staging staging(*backend_);
  note(staging, gradients);
  staging.note_array(gradient_scale, 1);
  staging.note_array(result, 1);
  staging.begin();
  backend_->scan(staged(staging, gradients), staging.at(gradient_scale), skips, staging.at(result));
  staging.finish();
}

void StagingBackend::admit(const kernels::StepPermit* permit, std::int32_t offers,
                           kernels::ReplayCounter* counter, kernels::ScanResult* result) {
  Staging staging(*backend_);
  staging.note_array(permit, 1);
  staging.note_array(counter, 1);
  staging.note_array(result, 1);
  staging.begin();
  backend_->admit(staging.at(permit), offers, staging.at(counter), staging.at(result));
  staging.finish();
}

void StagingBackend::compare(const kernels::RecordArray& records, void* gathered,
                             std::int32_t* proceed) {
  const std::int64_t end =
      *std::max_element(records.begins, records.begins + records.count) + records.bytes;
  Staging staging(*backend_);
  staging.note(records.array, static_cast<std::size_t>(end));
  staging.note_array(records.begins, records.count);
  staging.note(gathered, static_cast<std::size_t>(records.count * records.bytes));
  staging.note_array(proceed, 1);
  staging.begin();
  kernels::RecordArray copy = records;
  copy.array = staging.at(records.array);
  copy.begins = staging.at(records.begins);
  backend_->compare(copy, staging.at(gathered), staging.at(proceed));
  staging.finish();
}

void StagingBackend::read_values(const TileTable& elements, void* masters, void* slot) {
  Staging staging(*backend_);
  note(staging, elements);
  note_masters(staging, elements, masters);
  note_slot(staging, elements, slot);
  staging.begin();
  backend_->read_values(staged(staging, elements), staging.at(masters), staging.at(slot));
  staging.finish();
}

void StagingBackend::filter(const PassContext& context, const kernels::GradientPass& pass) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, pass);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  backend_->filter(staged(staging, context, elements), staged(staging, pass));
  staging.finish();
}

void StagingBackend::update(const PassContext& context, const kernels::UpdatePass& pass) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, pass);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  backend_->update(staged(staging, context, elements), staged(staging, pass));
  staging.finish();
}

void StagingBackend::filter_and_update(const PassContext& context,
                                       const kernels::GradientPass& gradients,
                                       const kernels::UpdatePass& pass) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, gradients);
  note(staging, context.elements, pass);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  backend_->filter_and_update(staged(staging, context, elements), staged(staging, gradients),
                              staged(staging, pass));
  staging.finish();
}

void StagingBackend::apply(const TileTable& elements, const kernels::Mode* modes,
                           const void* segments, const std::int32_t* proceed) {
  Staging staging(*backend_);
  note(staging, elements);
  staging.note_array(modes, elements.block_count);
  staging.note_array(proceed, 1);
  for (std::int64_t i = 0; i < elements.tile_count; ++i)
    note_segment(staging, elements, segments, elements.tiles[i], elements.tiles[i].flat);
  staging.begin();
  backend_->apply(staged(staging, elements), staging.at(modes), staging.at(segments),
                  staging.at(proceed));
  staging.finish();
}

void StagingBackend::pack_values(const TileTable& elements, void* segments) {
  Staging staging(*backend_);
  note(staging, elements);
  note_segments(staging, elements, segments);
  staging.begin();
  backend_->pack_values(staged(staging, elements), staging.at(segments));
  staging.finish();
}

void StagingBackend::evaluate(const TileTable& elements, const kernels::EvaluationPass& pass) {
  Staging staging(*backend_);
  note(staging, elements);
  note_masters(staging, elements, pass.masters);
  note_slot(staging, elements, pass.iterate);
  note_segments(staging, elements, pass.segment);
  staging.note_array(pass.extrapolations, elements.block_count);
  staging.begin();
  kernels::EvaluationPass copy = pass;
  copy.extrapolations = staging.at(pass.extrapolations);
  copy.iterate = staging.at(pass.iterate);
  copy.masters = staging.at(pass.masters);
  copy.segment = staging.at(pass.segment);
  backend_->evaluate(staged(staging, elements), copy);
  staging.finish();
}

void StagingBackend::accumulate_factors(const PassContext& context, std::span<const Stack> stacks,
                                        std::span<const Selection> selected, const void* masters) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, stacks, selected);
  note_masters(staging, context.elements, masters);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  backend_->accumulate_factors(staged(staging, context, elements), staged(staging, stacks),
                               staged(staging, selected), staging.at(masters));
  staging.finish();
}

void StagingBackend::precondition(const PassContext& context, std::span<const Stack> stacks,
                                  std::span<const Selection> selected, void* direction,
                                  double* direction_norms) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, stacks, selected);
  note_slot(staging, context.elements, direction);
  staging.note_array(direction_norms, context.elements.block_count);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  backend_->precondition(staged(staging, context, elements), staged(staging, stacks),
                         staged(staging, selected), staging.at(direction),
                         staging.at(direction_norms));
  staging.finish();
}

void StagingBackend::orthogonalize(const PassContext& context, std::span<const Stack> stacks,
                                   std::span<const Selection> selected,
                                   std::span<const kernels::PolarPlan> plans, void* direction,
                                   double* direction_norms) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, stacks, selected);
  note_slot(staging, context.elements, direction);
  staging.note_array(direction_norms, context.elements.block_count);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  backend_->orthogonalize(staged(staging, context, elements), staged(staging, stacks),
                          staged(staging, selected), plans, staging.at(direction),
                          staging.at(direction_norms));
  staging.finish();
}

}  // namespace shampoo::test
