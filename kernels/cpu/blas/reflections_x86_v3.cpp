// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/reflections.h"
#include "kernels/cpu/blas/tridiagonal_tiles.h"

namespace shampoo::kernels {

Reflections x86_v3_reflections() { return {reflections_in<float>(), reflections_in<double>()}; }

}  // namespace shampoo::kernels
