// SPDX-License-Identifier: Apache-2.0
#include "grouping/box.h"

#include <stdexcept>
#include <string>

namespace shampoo::grouping {

std::int64_t numel(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  bool empty = false;
  for (std::int64_t side : shape) {
    if (side < 0)
      throw std::invalid_argument("every side must be at least 0, got " + std::to_string(side));
    if (side == 0) empty = true;
  }
  if (empty) return 0;
  for (std::int64_t side : shape)
    if (__builtin_mul_overflow(product, side, &product))
      throw std::invalid_argument("the number of elements must be at most 2^63 - 1");
  return product;
}

}  // namespace shampoo::grouping
