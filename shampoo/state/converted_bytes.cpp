// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/converted_bytes.h"

#include <cstring>
#include <span>

namespace shampoo {

namespace {

template <typename To, typename From>
std::vector<std::byte> convert(std::span<const std::byte> from) {
  const std::size_t count = from.size() / sizeof(From);
  std::vector<std::byte> to(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    From number;
    std::memcpy(&number, from.data() + i * sizeof(From), sizeof(From));
    const To converted = static_cast<To>(number);
    std::memcpy(to.data() + i * sizeof(To), &converted, sizeof(To));
  }
  return to;
}

}  // namespace

std::vector<std::byte> converted_bytes(const StateTensor& tensor, Type type) {
  return type == Type::float64 ? convert<double, float>(tensor.bytes)
                               : convert<float, double>(tensor.bytes);
}

}  // namespace shampoo
