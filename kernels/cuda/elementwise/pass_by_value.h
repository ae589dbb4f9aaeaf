// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/views.h"

namespace shampoo::kernels::cuda {

/// A PassContext by value.
struct PassByValue {
  TileTable elements;
  const Mode* modes = nullptr;
  const Coefficients* coefficients = nullptr;
  const double* gradient_scale = nullptr;
  const std::int32_t* proceed = nullptr;

  explicit PassByValue(const PassContext& context)
      : elements(context.elements),
        modes(context.modes),
        coefficients(context.coefficients),
        gradient_scale(context.gradient_scale),
        proceed(context.proceed) {}
};

}  // namespace shampoo::kernels::cuda
