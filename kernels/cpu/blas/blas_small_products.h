// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo::kernels {

/// OpenBLAS's AVX-512 kernels for small products without packing call malloc where no operand is
/// transposed. Makes the library take its packed kernels for those, so that no product and no
/// decomposition allocates. Does nothing where the library has no such kernels.
void keep_small_products_from_allocating();

}  // namespace shampoo::kernels
