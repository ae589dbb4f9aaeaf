// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/types.h"

namespace shampoo::kernels {

/// Calls body with a null pointer to float or double.
template <typename Body>
void with_real(Type type, Body&& body) {
  if (type == Type::float64)
    body(static_cast<double*>(nullptr));
  else
    body(static_cast<float*>(nullptr));
}

}  // namespace shampoo::kernels
