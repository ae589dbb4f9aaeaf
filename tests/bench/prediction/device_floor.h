// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/types.h"
#include "tests/support/models.h"

namespace shampoo::test {

/// What a device reaches with kernels that do nothing else, below the data sheet.
struct DeviceRates {
  double terabytes_per_second = 0;  ///< read and written
  double tensor_teraflops = 0;      ///< 16-bit operands, float32 sums
  double tf32_teraflops = 0;        ///< float32 operands, rounded to 11 bits
};

/// Milliseconds that a plain step of one rank cannot do without, with Adam grafting. Products are
/// those of tensor cores, statistics of float32 tensors by TF32. Vectors have no factors: a
/// diagonal does.
struct DeviceFloor {
  double elementwise = 0;   ///< 28 bytes per element
  double factors = 0;       ///< one triangle read and written
  double gram = 0;          ///< half of a symmetric product
  double precondition = 0;  ///< full products with roots
  double total() const { return elementwise + factors + gram + precondition; }
};

DeviceFloor device_floor(const Model& model, std::int64_t block_size, Type type,
                         const DeviceRates& rates);

}  // namespace shampoo::test
