// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/host_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cpu/blas/blas_setup.h"
#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/householder.h"
#include "kernels/cpu/eigen.h"
#include "kernels/cpu/mode_products.h"
#include "kernels/cpu/tridiagonal.h"

namespace shampoo {

namespace kernels {

namespace {

/// Asks for huge pages within large memory: passes over it wait less for page tables.
void ask_for_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t page = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + page - 1) / page * page,
                       end = (begin + bytes) / page * page;
  // A kernel that has none refuses, and nothing is lost.
  if (first < end)
    madvise(static_cast<char*>(memory) + (first - begin), end - first, MADV_HUGEPAGE);
}

}  // namespace

CpuBackend::CpuBackend(int threads, bool sets_up_blas)
    : level_(best_level()), workers_(threads == 0 ? default_threads() : threads) {
  if (sets_up_blas) set_up_blas();
  blas_buffers_.emplace(workers_.pool.size());
}

std::string CpuBackend::description() const {
  const int threads = workers_.pool.size();
  return "cpu, " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
         std::string(level_.name) + " vectors, " + describe_blas();
}

std::string CpuBackend::arithmetic() const {
  return "cpu, " + std::string(level_.name) + " vectors, " + blas_core();
}

std::size_t CpuBackend::chunk_bytes(std::size_t largest) const {
  constexpr std::size_t each_worker = std::size_t{1} << 19, most = std::size_t{64} << 20;
  const std::size_t workers = static_cast<std::size_t>(workers_.pool.size());
  return std::min(workers * std::max(each_worker, 2 * largest), most);
}

void* CpuBackend::allocate(std::size_t bytes) {
  void* const memory = ::operator new (bytes, std::align_val_t{cache_line});
  ask_for_huge_pages(memory, bytes);
  std::memset(memory, 0, bytes);
  return memory;
}

void CpuBackend::release(void* memory) noexcept {
  ::operator delete (memory, std::align_val_t{cache_line});
}

void CpuBackend::upload(void* to, const void* from_host, std::size_t bytes) {
  copy(to, from_host, bytes);
}

void CpuBackend::download(void* to_host, const void* from, std::size_t bytes) {
  copy(to_host, from, bytes);
}

void CpuBackend::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void CpuBackend::reserve(std::span<const Stack> stacks, Type arithmetic, const SolverCalls& calls) {
  std::size_t bytes = scratch_bytes<double>(block_product_scratch(calls.largest_side));
  if (calls.decompositions)
    bytes = std::max({eigen_scratch(calls.largest_side), householder_scratch(calls.largest_side),
                      tridiagonal_scratch(calls.largest_side)});
  for (const Stack& stack : stacks)
    bytes = std::max(bytes, arithmetic == Type::float64 ? mode_product_scratch<double>(stack)
                                                        : mode_product_scratch<float>(stack));
  workers_.reserve(bytes, stacks.size());
}

}  // namespace kernels

std::unique_ptr<Backend> cpu_backend(const CpuOptions& options) {
  constexpr int most_threads = 1024;
  if (options.threads < 0 || options.threads > most_threads)
    throw std::invalid_argument("cpu_backend: threads is " + std::to_string(options.threads) +
                                "; it must be in [0, " + std::to_string(most_threads) + "]");
  return std::make_unique<kernels::CpuBackend>(options.threads, options.set_up_blas);
}

}  // namespace shampoo
