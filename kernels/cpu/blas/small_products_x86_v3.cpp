// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/small_product_tiles.h"
#include "kernels/cpu/blas/small_products.h"

namespace shampoo::kernels {

SmallProducts x86_v3_products() { return {multiply_small<float>, multiply_small<double>}; }

}  // namespace shampoo::kernels
