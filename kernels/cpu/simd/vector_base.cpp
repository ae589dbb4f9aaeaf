// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/simd/vector_table.h"

namespace shampoo::kernels {

VectorLevel base_level() { return {"base", compiled_kernels<float>, compiled_kernels<double>}; }

}  // namespace shampoo::kernels
