// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo::kernels {

/// Configures OpenBLAS, once per process: one thread per call, because callers run one matrix per
/// thread, and kernels that fit the processor, because a library older than the processor falls
/// back to ones that are several times slower. A copy of this library's own ends its threads. Does
/// nothing with another BLAS.
void set_up_blas();

/// While it lives, OpenBLAS has buffers for calls from this many threads at once, beside those of
/// every other one in the process, so that those calls allocate none. LAPACK's decompositions may
/// still get and return small buffers: see multiply_square().
class BlasBuffers {
 public:
  explicit BlasBuffers(int threads);
  ~BlasBuffers();
  BlasBuffers(const BlasBuffers&) = delete;
  BlasBuffers& operator=(const BlasBuffers&) = delete;

 private:
  int threads_;
};

/// Name of the library and of its kernels in use, part of what bits depend on, found by where the
/// functions lie that are called: "OpenBLAS SkylakeX", otherwise "BLAS in libblas.so.3".
std::string blas_core();

/// Human-readable: library, kernels in use, threads per call, whether the program shares it, and
/// whether set_up_blas() changed the kernels.
std::string describe_blas();

}  // namespace shampoo::kernels
