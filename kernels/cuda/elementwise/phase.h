// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace shampoo::kernels::cuda {

/// A Phase by value.
struct PhaseByValue {
  TileTable elements;
  const Mode* modes = nullptr;
  const Coefficients* coefficients = nullptr;
  const double* gradient_scale = nullptr;
  const std::int32_t* proceed = nullptr;

  explicit PhaseByValue(const PassContext& phase)
      : elements(phase.elements),
        modes(phase.modes),
        coefficients(phase.coefficients),
        gradient_scale(phase.gradient_scale),
        proceed(phase.proceed) {}
};

}  // namespace shampoo::kernels::cuda
