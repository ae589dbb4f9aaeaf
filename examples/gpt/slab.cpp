// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/slab.h"

#include <algorithm>
#include <bit>

namespace gpt {

namespace {

/// Infinities stay, a NaN stays one.
std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float to_float(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

}  // namespace

Slab::Slab(shampoo::Backend& backend, std::int64_t elements, shampoo::Type type)
    : host(static_cast<std::size_t>(elements)),
      backend_(backend),
      type_(type),
      rounded_(type == shampoo::Type::bfloat16 ? host.size() : 0),
      memory_(backend.allocate(bytes()), [&backend](void* memory) { backend.release(memory); }) {}

std::size_t Slab::bytes() const { return host.size() * (rounded_.empty() ? 4 : 2); }

shampoo::Tensor Slab::at(std::int64_t element) const {
  return {static_cast<std::byte*>(memory_.get()) + element * (rounded_.empty() ? 4 : 2), type_};
}

shampoo::TensorSpan Slab::all() const { return {memory_.get(), std::ssize(host), type_}; }

void Slab::write() {
  std::ranges::transform(std::span(host).first(rounded_.size()), rounded_.begin(), to_bfloat16);
  backend_.upload(memory_.get(),
                  rounded_.empty() ? static_cast<void*>(host.data()) : rounded_.data(), bytes());
  backend_.synchronize();
}

void Slab::read() {
  backend_.download(rounded_.empty() ? static_cast<void*>(host.data()) : rounded_.data(),
                    memory_.get(), bytes());
  backend_.synchronize();
  std::ranges::transform(rounded_, host.begin(), to_float);
}

}  // namespace gpt
