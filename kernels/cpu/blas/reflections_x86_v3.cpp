// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/reflection_tiles.h"
#include "kernels/cpu/blas/reflections.h"

namespace shampoo::kernels {

Reflections x86_v3_reflections() { return {reflect<float>, reflect<double>}; }

}  // namespace shampoo::kernels
