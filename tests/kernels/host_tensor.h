// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/types.h"
#include "tests/kernels/numbers.h"

namespace shampoo::test {

using Extents = std::vector<std::int64_t>;
using Bytes = std::vector<unsigned char>;  ///< which compare at once, as those of std::byte do not

/// How a tensor of the caller lies in memory.
enum class Layout : std::uint8_t {
  packed,      ///< row-major
  padded,      ///< three unused elements after each row
  spread,      ///< every second element of such rows
  transposed,  ///< column-major
  shifted      ///< row-major, from an address that is a multiple of the element's size only
};

/// A tensor of the caller and the addresses of its elements.
struct HostTensor {
  Type type = Type::float32;
  std::vector<std::int64_t> shape, strides;
  Bytes memory;
  std::size_t offset = 0;  ///< of the first element

  void* base() { return memory.data() + offset; }
  void* at(std::int64_t element);  ///< by row-major number
  double read(std::int64_t element);
  void write(std::int64_t element, double x);
};

/// A tensor of random elements.
HostTensor host_tensor(const Extents& shape, Type type, Layout layout, Numbers& numbers);

}  // namespace shampoo::test
