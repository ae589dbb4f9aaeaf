// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/blas_small_products.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cctype>
#include <cstddef>
#include <span>
#include <string>

#include "kernels/cpu/blas/blas_symbols.h"

namespace shampoo::kernels {

namespace {

/// Asked by OpenBLAS for every product: whether to take a kernel without packing.
template <typename Real>
using Permit = int (*)(int op_a, int op_b, long m, long n, long k, Real alpha, Real beta);

template <typename Real>
struct Permits {
  static Permit<Real>& of_library() {
    static Permit<Real> found = nullptr;
    return found;
  }

  static int without_allocation(int op_a, int op_b, long m, long n, long k, Real alpha, Real beta) {
    const bool allocates = op_a == 0 && op_b == 0;
    return !allocates && of_library()(op_a, op_b, m, n, k, alpha, beta);
  }
};

/// The table of kernels in use, an array of pointers for the most part; empty where there is none.
std::span<void*> kernel_table() {
  void** const table = blas_symbol<void**>("gotoblas");
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (table == nullptr || *table == nullptr ||
      dladdr1(*table, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr || info.dli_saddr != *table)
    return {};
  return {static_cast<void**>(*table), symbol->st_size / sizeof(void*)};
}

template <typename Real>
void replace(std::span<void*> table, const std::string& name) {
  void* const original = blas_symbol<void*>(name.c_str());
  if (original == nullptr) return;
  for (void*& entry : table) {
    if (entry != original) continue;
    Permits<Real>::of_library() = reinterpret_cast<Permit<Real>>(original);
    entry = reinterpret_cast<void*>(&Permits<Real>::without_allocation);
  }
}

}  // namespace

void keep_small_products_from_allocating() {
  const auto core_name = blas_symbol<char* (*)()>("openblas_get_corename");
  if (core_name == nullptr) return;
  std::string core = core_name();
  for (char& c : core) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));

  const std::span<void*> table = kernel_table();
  replace<float>(table, "sgemm_small_matrix_permit_" + core);
  replace<double>(table, "dgemm_small_matrix_permit_" + core);
}

}  // namespace shampoo::kernels
