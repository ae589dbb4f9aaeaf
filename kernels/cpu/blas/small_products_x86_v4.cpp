// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/block_product_tiles.h"
#include "kernels/cpu/blas/small_product_tiles.h"
#include "kernels/cpu/blas/small_products.h"

namespace shampoo::kernels {

SmallProducts x86_v4_products() { return {multiply_small<float>, multiply_small<double>}; }

BlockProducts<float> x86_v4_block_products(float) {
  return {multiply_block<float>, subtract_block<float>, accumulate_block<float>};
}
BlockProducts<double> x86_v4_block_products(double) {
  return {multiply_block<double>, subtract_block<double>, accumulate_block<double>};
}

}  // namespace shampoo::kernels
