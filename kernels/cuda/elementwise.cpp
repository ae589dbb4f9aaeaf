// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/backend.h"

namespace shampoo::kernels::cuda {

namespace {

/// Kernel<float> or Kernel<double> of the arguments.
template <template <typename> typename Program, typename... Arguments>
Kernel in_arithmetic(Type arithmetic, const Arguments&... arguments) {
  if (arithmetic == Type::float64) return Program<double>{arguments...};
  return Program<float>{arguments...};
}

}  // namespace

void DeviceBackend::scan(const Elements& gradients, const double* gradient_scale, bool refuses,
                         Verdict* verdict) {
  device_->launch(gradients.piece_count,
                  in_arithmetic<ScanPiece>(gradients.arithmetic, gradients, gradient_scale));
  device_->launch(1, Judge{gradients, refuses, verdict});
}

void DeviceBackend::admit(const Admission* admission, std::int32_t offers, Runs* runs,
                          Verdict* verdict) {
  device_->launch(1, Admit{admission, offers, runs, verdict});
}

void DeviceBackend::compare(const Records& records, void* gathered, std::int32_t* proceed) {
  device_->launch(1, Compare{records, gathered, proceed});
}

void DeviceBackend::read_values(const Elements& elements, void* masters) {
  device_->launch(elements.piece_count, ReadValues{elements, masters});
}

void DeviceBackend::filter(const Phase& phase, const Filter& filter) {
  const Elements& elements = phase.elements;
  device_->launch(elements.piece_count,
                  in_arithmetic<FilterPiece>(elements.arithmetic, PhaseByValue(phase), filter));
  if (filter.graft == Graft::none || filter.graft_norms == nullptr) return;
  device_->launch((elements.block_count + SumPieces::threads - 1) / SumPieces::threads,
                  SumPieces{elements, phase.modes, phase.proceed, filter.graft_norms});
}

void DeviceBackend::update(const Phase& phase, const Update& update) {
  device_->launch(
      phase.elements.piece_count,
      in_arithmetic<UpdatePiece>(phase.elements.arithmetic, PhaseByValue(phase), update));
}

void DeviceBackend::apply(const Elements& elements, const Mode* modes, const void* segments,
                          const std::int32_t* proceed) {
  device_->launch(elements.piece_count, ApplyPiece{elements, modes, segments, proceed});
}

}  // namespace shampoo::kernels::cuda
