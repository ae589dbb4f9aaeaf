// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "kernels/rules/host_device.h"

#ifdef __CUDACC__
#include <cuda_pipeline.h>
#endif

namespace shampoo::kernels::cuda {

/// 16 bytes of elements of 16 bits in one access. Of a struct of them NVCC 13.0 moves 2 or 4 bytes
/// at a time, of structs of longer elements all 16; it takes a uint4 apart where it is stored, too.
template <typename Vector>
SHAMPOO_BOTH Vector load16(const void* from) {
  static_assert(sizeof(Vector) == 16 && alignof(Vector) == 16);
#ifdef __CUDA_ARCH__
  return __builtin_bit_cast(Vector, *static_cast<const uint4*>(from));
#else
  return *static_cast<const Vector*>(from);
#endif
}

template <typename Vector>
SHAMPOO_BOTH void store16(void* to, const Vector& from) {
  static_assert(sizeof(Vector) == 16 && alignof(Vector) == 16);
#ifdef __CUDA_ARCH__
  const uint4 words = __builtin_bit_cast(uint4, from);
  asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
#else
  *static_cast<Vector*>(to) = from;
#endif
}

/// Begins to copy 16 bytes, or zeros where they do not exist, from global to shared memory, as one
/// of this thread's copies up to the next end_of_copies().
SHAMPOO_BOTH inline void copy16(void* to, const void* from, bool exists = true) {
#ifdef __CUDA_ARCH__
  __pipeline_memcpy_async(to, from, 16, exists ? 0 : 16);
#else
  if (exists)
    std::memcpy(to, from, 16);
  else
    std::memset(to, 0, 16);
#endif
}

SHAMPOO_BOTH inline void end_of_copies() {
#ifdef __CUDA_ARCH__
  __pipeline_commit();
#endif
}

/// Waits for this thread's copies but those up to its `last` latest end_of_copies().
template <int last>
SHAMPOO_BOTH void await_copies() {
#ifdef __CUDA_ARCH__
  __pipeline_wait_prior(last);
#endif
}

/// Begins to read the line of an address into the second-level cache [PTX ISA, prefetch].
SHAMPOO_BOTH inline void prefetch(const void* from) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#else
  static_cast<void>(from);
#endif
}

}  // namespace shampoo::kernels::cuda
