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

void DeviceBackend::scan(const TileTable& gradients, const double* gradient_scale, bool refuses,
                         ScanResult* verdict) {
  device_->launch(gradients.tile_count,
                  in_arithmetic<ScanTile>(gradients.arithmetic, gradients, gradient_scale));
  device_->launch(1, Judge{gradients, refuses, verdict});
}

void DeviceBackend::admit(const StepPermit* admission, std::int32_t offers, ReplayCounter* runs,
                          ScanResult* verdict) {
  device_->launch(1, Admit{admission, offers, runs, verdict});
}

void DeviceBackend::compare(const RecordArray& records, void* gathered, std::int32_t* proceed) {
  device_->launch(1, Compare{records, gathered, proceed});
}

void DeviceBackend::read_values(const TileTable& elements, void* masters) {
  device_->launch(elements.tile_count, ReadValues{elements, masters});
}

void DeviceBackend::filter(const PassContext& phase, const Filter& filter) {
  const TileTable& elements = phase.elements;
  device_->launch(elements.tile_count,
                  in_arithmetic<FilterTile>(elements.arithmetic, PhaseByValue(phase), filter));
  if (filter.graft == Graft::none || filter.graft_norms == nullptr) return;
  device_->launch((elements.block_count + SumTiles::threads - 1) / SumTiles::threads,
                  SumTiles{elements, phase.modes, phase.proceed, filter.graft_norms});
}

void DeviceBackend::update(const PassContext& phase, const Update& update) {
  device_->launch(
      phase.elements.tile_count,
      in_arithmetic<UpdateTile>(phase.elements.arithmetic, PhaseByValue(phase), update));
}

void DeviceBackend::apply(const TileTable& elements, const Mode* modes, const void* segments,
                          const std::int32_t* proceed) {
  device_->launch(elements.tile_count, ApplyTile{elements, modes, segments, proceed});
}

}  // namespace shampoo::kernels::cuda
