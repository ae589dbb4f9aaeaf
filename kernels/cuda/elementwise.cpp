// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_backend.h"

namespace shampoo::kernels::cuda {

namespace {

/// Kernel<float> or Kernel<double> of the arguments.
template <template <typename> typename Program, typename... Arguments>
Kernel in_arithmetic(Type arithmetic, const Arguments&... arguments) {
  if (arithmetic == Type::float64) return Program<double>{arguments...};
  return Program<float>{arguments...};
}

}  // namespace

void DeviceBackend::scan(const TileTable& gradients, const double* gradient_scale, bool skips,
                         ScanResult* result) {
  device_->launch(gradients.tile_count,
                  in_arithmetic<ScanTile>(gradients.arithmetic, gradients, gradient_scale));
  device_->launch(1, ReduceScan{gradients, skips, result});
}

void DeviceBackend::scale_tensors(const TileTable& gradients, double max_norm,
                                  const double* gradient_scale, double* scales) {
  device_->launch(gradients.block_count, ScaleTensor{gradients, max_norm, gradient_scale, scales});
}

void DeviceBackend::admit(const StepPermit* permit, std::int32_t offers, const GradientRules& rules,
                          StepRecords* records) {
  device_->launch(1, Admit{permit, offers, rules, records});
}

void DeviceBackend::compare(const RecordArray& records, void* gathered, std::int32_t* proceed) {
  device_->launch(1, Compare{records, gathered, proceed});
}

void DeviceBackend::accumulate(const TileTable& elements, const double* keep, const double* add) {
  device_->launch(elements.tile_count,
                  in_arithmetic<AccumulateTile>(elements.arithmetic, elements, keep, add));
}

void DeviceBackend::read_values(const TileTable& elements, void* masters, void* slot) {
  device_->launch(elements.tile_count, ReadValues{elements, masters, slot});
}

void DeviceBackend::filter(const PassContext& context, const GradientPass& pass) {
  const TileTable& elements = context.elements;
  device_->launch(elements.tile_count,
                  in_arithmetic<FilterTile>(elements.arithmetic, context, pass));
  double* const grafting_norms = pass.grafting ? pass.grafting_norms : nullptr;
  if (grafting_norms == nullptr && pass.direction_norms == nullptr) return;
  device_->launch(
      (elements.block_count + SumTiles::threads - 1) / SumTiles::threads,
      SumTiles{elements, context.modes, context.proceed, grafting_norms, pass.direction_norms});
}

void DeviceBackend::graft_directions(const PassContext& context, const UpdatePass& pass,
                                     void* direction) {
  device_->launch(context.elements.tile_count,
                  in_arithmetic<GraftTile>(context.elements.arithmetic, context, pass, direction));
}

void DeviceBackend::measure_directions(const PassContext& context, const UpdatePass& pass,
                                       DirectionSums* sums) {
  static_assert(sizeof(DirectionSums) == 3 * sizeof(double));
  device_->launch(context.elements.tile_count,
                  in_arithmetic<MeasureTile>(context.elements.arithmetic, context, pass));
  sum_partials(context, 3, reinterpret_cast<double*>(sums));  // null where there is no block
}

void DeviceBackend::update(const PassContext& context, const UpdatePass& pass) {
  device_->launch(context.elements.tile_count,
                  in_arithmetic<UpdateTile>(context.elements.arithmetic, context, pass));
  const bool judges = pass.direction_norms != nullptr || pass.scaling.sums != nullptr;
  if (judges && pass.non_finite != nullptr) device_->launch(1, CountDirections{context, pass});
  finish_values(context, pass);
}

void DeviceBackend::filter_and_update(const PassContext& context, const GradientPass& gradients,
                                      const UpdatePass& pass) {
  device_->launch(
      context.elements.tile_count,
      in_arithmetic<FilterAndUpdateTile>(context.elements.arithmetic, context, gradients, pass));
  finish_values(context, pass);
}

void DeviceBackend::finish_values(const PassContext& context, const UpdatePass& pass) {
  const std::int64_t tiles = context.elements.tile_count;
  const Type arithmetic = context.elements.arithmetic;
  if (pass.projection.rule == ProjectionRule::unit_norm) {
    device_->launch(tiles, in_arithmetic<NewValueNormTile>(arithmetic, context, pass));
    sum_partials(context, 1, pass.projection.squared_norms);
  }
  if (pass.projection.rule != ProjectionRule::none)
    device_->launch(tiles, in_arithmetic<ProjectTile>(arithmetic, context, pass));
  if (pass.value_average.average != nullptr)
    device_->launch(tiles, in_arithmetic<AverageTile>(arithmetic, context, pass));
}

void DeviceBackend::sum_partials(const PassContext& context, int count, double* sums) {
  device_->launch((context.elements.block_count + SumPartials::threads - 1) / SumPartials::threads,
                  SumPartials{context, count, sums});
}

void DeviceBackend::apply(const TileTable& elements, const Mode* modes, const void* segments,
                          const std::int32_t* proceed) {
  device_->launch(elements.tile_count, ApplyTile{elements, modes, segments, proceed});
}

void DeviceBackend::pack_values(const TileTable& elements, void* segments) {
  device_->launch(elements.tile_count, PackTile{elements, segments});
}

void DeviceBackend::evaluate(const TileTable& elements, const EvaluationPass& pass) {
  device_->launch(elements.tile_count,
                  in_arithmetic<EvaluateTile>(elements.arithmetic, elements, pass));
}

}  // namespace shampoo::kernels::cuda
