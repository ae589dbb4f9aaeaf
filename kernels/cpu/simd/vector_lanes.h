// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Vectors of this level of the instruction set. Internal linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <typename Real, int bytes = vector_bytes>
struct Vector {
  typedef Real type __attribute__((vector_size(bytes)));
  static constexpr std::int64_t lanes = bytes / sizeof(Real);
};

}  // namespace
}  // namespace shampoo::kernels
