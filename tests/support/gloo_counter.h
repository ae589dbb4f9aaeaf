// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>

namespace shampoo::test {

/// Calls so far, in this process, of gloo::allgatherv, alltoallv, broadcast, barrier and allreduce;
/// of no others. For programs linked with shampoo_gloo_counter: in the library's place they load a
/// module that counts.
inline std::int64_t gloo_collectives() {
  void* const module = dlopen(SHAMPOO_GLOO_COUNTER, RTLD_NOW | RTLD_NOLOAD);
  if (!module) throw std::runtime_error("the module that counts is not the one in use");
  const void* const function = dlsym(module, "shampoo_gloo_collectives");
  return reinterpret_cast<std::int64_t (*)()>(const_cast<void*>(function))();
}

}  // namespace shampoo::test
