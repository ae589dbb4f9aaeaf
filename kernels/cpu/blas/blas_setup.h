// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo::kernels {

/// Once per process, where BLAS is OpenBLAS: one thread per call, because callers run one matrix
/// per thread, and kernels that fit the processor, because a library older than the processor falls
/// back to ones that are several times slower. OPENBLAS_CORETYPE, if set, is left to decide.
void set_up_blas();

/// Gets OpenBLAS's own memory for calls from this many threads at once, so that none of them does.
void warm_up_blas(int threads);

/// The library and the kernels it uses.
std::string blas_core();

/// For people: library, kernels it uses, threads per call, and whether set_up_blas() changed the
/// kernels.
std::string describe_blas();

}  // namespace shampoo::kernels
