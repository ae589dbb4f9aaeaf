// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// A target of libFuzzer: takes any bytes, and must return. What it finds wrong ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace shampoo::fuzz {

/// Ends the process unless a property holds: libFuzzer then keeps the input.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace shampoo::fuzz
