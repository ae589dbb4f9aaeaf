// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace shampoo {

struct CpuOptions {
  /// Workers, the calling thread included; 0: one for each processor of the affinity mask.
  int threads = 0;
  /// Whether BLAS may be set up once for the whole process: one thread per call, and kernels that
  /// fit the processor where the library, or OPENBLAS_CORETYPE, chose older ones. description()
  /// reports what was done.
  bool set_up_blas = true;
};

/// The host. Calls return when their work is done.
/// Throws std::invalid_argument unless 0 <= threads <= 1024.
std::unique_ptr<Backend> cpu_backend(const CpuOptions& options = {});

}  // namespace shampoo
