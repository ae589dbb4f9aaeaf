// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "tests/support/device/staging_arguments.h"
#include "tests/support/device/staging_backend.h"

namespace shampoo::test {

using kernels::PassContext;
using kernels::Selection;
using kernels::Stack;
using kernels::TileTable;

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

void StagingBackend::scale_tensors(const TileTable& gradients, double max_norm,
                                   const double* gradient_scale, double* scales) {
  Staging staging(*backend_);
  note(staging, gradients);
  staging.note_array(gradient_scale, 1);
  staging.note_array(scales, tensors_of(gradients));
  staging.begin();
  backend_->scale_tensors(staged(staging, gradients), max_norm, staging.at(gradient_scale),
                          staging.at(scales));
  staging.finish();
}

void StagingBackend::admit(const kernels::StepPermit* permit, std::int32_t offers,
                           const kernels::GradientRules& rules, kernels::StepRecords* records) {
  Staging staging(*backend_);
  kernels::GradientRules copy = rules;
  staging.note_array(permit, 1);
  staging.note_array(records, 1);
  staging.note_array(rules.norm_limit.norms, rules.norm_limit.window);
  staging.begin();
  copy.norm_limit.norms = staging.at(rules.norm_limit.norms);
  backend_->admit(staging.at(permit), offers, copy, staging.at(records));
  staging.finish();
}

void StagingBackend::accumulate(const TileTable& elements, const double* keep, const double* add) {
  Staging staging(*backend_);
  note(staging, elements);
  staging.note_array(keep, 1);
  staging.note_array(add, 1);
  staging.begin();
  backend_->accumulate(staged(staging, elements), staging.at(keep), staging.at(add));
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

void StagingBackend::graft_directions(const PassContext& context, const kernels::UpdatePass& pass,
                                      void* direction) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, pass);
  note_slot(staging, context.elements, direction);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  backend_->graft_directions(staged(staging, context, elements), staged(staging, pass),
                             staging.at(direction));
  staging.finish();
}

void StagingBackend::measure_directions(const PassContext& context, const kernels::UpdatePass& pass,
                                        kernels::DirectionSums* sums) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, pass);
  staging.note_array(sums, context.elements.block_count);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  backend_->measure_directions(staged(staging, context, elements), staged(staging, pass),
                               staging.at(sums));
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

namespace {

/// accumulate(context, stacks, selected, masters) with what an accumulation of factors reads and
/// writes staged.
template <typename Accumulate>
void stage_factors(kernels::Backend& backend, const PassContext& context,
                   std::span<const Stack> stacks, std::span<const Selection> selected,
                   const void* masters, const Accumulate& accumulate) {
  Staging staging(backend);
  note(staging, context);
  note(staging, context.elements, stacks, selected);
  note_masters(staging, context.elements, masters);
  staging.begin();
  const TileTable elements = staged(staging, context.elements);
  accumulate(staged(staging, context, elements), staged(staging, stacks), staged(staging, selected),
             staging.at(masters));
  staging.finish();
}

}  // namespace

void StagingBackend::accumulate_factors(const PassContext& context, std::span<const Stack> stacks,
                                        std::span<const Selection> selected, const void* masters) {
  stage_factors(*backend_, context, stacks, selected, masters,
                [&](const auto&... there) { backend_->accumulate_factors(there...); });
}

void StagingBackend::accumulate_whitened_factors(const PassContext& context,
                                                 std::span<const Stack> stacks,
                                                 std::span<const Selection> selected,
                                                 const void* masters, bool normalizes) {
  stage_factors(*backend_, context, stacks, selected, masters, [&](const auto&... there) {
    backend_->accumulate_whitened_factors(there..., normalizes);
  });
}

void StagingBackend::rotate(const PassContext& context, std::span<const Stack> stacks,
                            std::span<const Selection> present, bool transposed, void* elements) {
  Staging staging(*backend_);
  note(staging, context);
  note(staging, context.elements, stacks, present);
  note_slot(staging, context.elements, elements);
  staging.begin();
  const TileTable table = staged(staging, context.elements);
  backend_->rotate(staged(staging, context, table), staged(staging, stacks),
                   staged(staging, present), transposed, staging.at(elements));
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
