// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/simd/vector_table.h"

namespace shampoo::kernels {

VectorLevel x86_v4_level() {
  return {"x86-64-v4", compiled_kernels<float>, compiled_kernels<double>};
}

}  // namespace shampoo::kernels
