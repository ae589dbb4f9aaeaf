// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt2_slab/slab.h"

#include <bit>

namespace gpt2_slab {

Slab::Slab(shampoo::Backend& backend, std::int64_t elements)
    : host(static_cast<std::size_t>(elements)),
      backend_(backend),
      memory_(backend.allocate(bytes()), [&backend](void* memory) { backend.release(memory); }) {}

void* Slab::at(std::int64_t element) const {
  return static_cast<std::uint16_t*>(memory_.get()) + element;
}

void Slab::write() {
  backend_.upload(memory_.get(), host.data(), bytes());
  backend_.synchronize();
}

void Slab::read() {
  backend_.download(host.data(), memory_.get(), bytes());
  backend_.synchronize();
}

std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float to_float(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

}  // namespace gpt2_slab
