// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/facets.h"

namespace shampoo::test {

inline std::unique_ptr<kernels::Backend> with_kernels(std::unique_ptr<Backend> backend) {
  return std::unique_ptr<kernels::Backend>(&kernels::kernels_of(*backend.release()));
}

/// cpu_backend() with its kernels.
inline std::unique_ptr<kernels::Backend> cpu_kernels(const CpuOptions& options = {}) {
  return with_kernels(cpu_backend(options));
}

}  // namespace shampoo::test
