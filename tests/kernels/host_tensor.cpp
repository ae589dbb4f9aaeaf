// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/host_tensor.h"

#include "grouping/box.h"

namespace shampoo::test {

namespace {

Extents strides_of(const Extents& shape, Layout layout) {
  Extents strides(shape.size(), 1);
  std::int64_t next = layout == Layout::spread ? 2 : 1;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const std::size_t at = layout == Layout::transposed ? k : shape.size() - 1 - k;
    strides[at] = next;
    next *= shape[at];
    if (k == 0 && (layout == Layout::padded || layout == Layout::spread)) next += 3;
  }
  return strides;
}

}  // namespace

HostTensor host_tensor(const Extents& shape, Type type, Layout layout, Numbers& numbers) {
  HostTensor tensor{type, shape, strides_of(shape, layout), {}, 0};
  std::int64_t last = 0;
  for (std::size_t k = 0; k < shape.size(); ++k) last += (shape[k] - 1) * tensor.strides[k];
  tensor.offset = layout == Layout::shifted ? size_of(type) : 0;
  tensor.memory.resize(tensor.offset + static_cast<std::size_t>(last + 1) * size_of(type), 0x5a);
  for (std::int64_t i = 0; i < grouping::numel(shape); ++i)
    tensor.write(i, rounded(numbers.next(), type));
  return tensor;
}

void* HostTensor::at(std::int64_t element) {
  std::int64_t place = 0;
  for (std::size_t k = shape.size(); k-- > 0; element /= shape[k])
    place += element % shape[k] * strides[k];
  return static_cast<std::byte*>(base()) + static_cast<std::size_t>(place) * size_of(type);
}

double HostTensor::read(std::int64_t element) { return test::read(at(element), type); }
void HostTensor::write(std::int64_t element, double x) { test::write(at(element), type, x); }

}  // namespace shampoo::test
