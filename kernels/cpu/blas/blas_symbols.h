// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

namespace shampoo::kernels {

/// An exported symbol of the BLAS in this process beyond the BLAS interface; null if it has none.
template <typename Pointer>
Pointer blas_symbol(const char* name) {
  return reinterpret_cast<Pointer>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace shampoo::kernels
