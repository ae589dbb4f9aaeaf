// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a formula that all backends share is declared with. SHAMPOO_BOTH: compiled for the host and
// for CUDA's devices. SHAMPOO_RULE: inlined too wherever it is used, because the CPU's vector
// kernels are compiled for several levels of the instruction set, of which the linker must not pick
// one copy for all.
#ifdef __CUDACC__
#define SHAMPOO_BOTH __host__ __device__
#else
#define SHAMPOO_BOTH
#endif
#define SHAMPOO_RULE SHAMPOO_BOTH __attribute__((always_inline)) inline
