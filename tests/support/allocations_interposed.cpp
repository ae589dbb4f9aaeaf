// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "kernels/cpu/blas/blas.h"
#include "tests/support/allocations.h"

// The dynamic linker looks into the program first, so these definitions serve every library in the
// process, BLAS and LAPACK too.
extern "C" {
void* __libc_malloc(std::size_t bytes);                     // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t bytes);  // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, std::size_t bytes);      // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment,
                      std::size_t size);  // NOLINT(bugprone-reserved-identifier)
}

namespace shampoo::test {
namespace {

// Constant-initialised: malloc is called before any constructor.
std::atomic<bool> counting{false};
std::atomic<std::int64_t> heap_requests{0};
std::atomic<std::int64_t> mapped_requests{0};
std::atomic<std::int64_t> blas_requests{0};
// Addresses of the library that BLAS is in; none if it is not OpenBLAS.
std::atomic<std::uintptr_t> blas_begin{0}, blas_end{0};

void find_blas() {
  // A thread that OpenBLAS starts when it is loaded maps memory whenever it comes to run.
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
  Dl_info found;
  const auto symbol = kernels::blas::library().find<char*()>("openblas_get_corename");
  if (symbol == nullptr || dladdr(reinterpret_cast<const void*>(symbol), &found) == 0) return;
  blas_begin = reinterpret_cast<std::uintptr_t>(found.dli_fbase);
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void*) {
        if (library->dlpi_addr != blas_begin) return 0;
        for (int i = 0; i < library->dlpi_phnum; ++i)
          if (const auto& part = library->dlpi_phdr[i]; part.p_type == PT_LOAD)
            blas_end = std::max<std::uintptr_t>(blas_end, blas_begin + part.p_vaddr + part.p_memsz);
        return 1;
      },
      nullptr);
}

void note(std::atomic<std::int64_t>& requests) {
  if (counting.load(std::memory_order_relaxed)) requests.fetch_add(1, std::memory_order_relaxed);
}

void note_heap(const void* caller) {
  note(heap_requests);
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (address >= blas_begin && address < blas_end) note(blas_requests);
}

void* map(void* address, std::size_t length, int protection, int flags, int file, off_t offset) {
  note(mapped_requests);
  const long mapped = syscall(SYS_mmap, address, length, protection, flags, file, offset);
  return reinterpret_cast<void*>(mapped);  // -1 is MAP_FAILED; errno was set
}

}  // namespace

AllocationCounter::AllocationCounter() {
  heap_requests = 0;
  mapped_requests = 0;
  blas_requests = 0;
  find_blas();
  counting = true;
}

AllocationCounter::~AllocationCounter() { counting = false; }

Allocations AllocationCounter::count() const {
  return {heap_requests, mapped_requests, blas_requests};
}

bool AllocationCounter::sees_everything() { return true; }

}  // namespace shampoo::test

extern "C" {

void* malloc(std::size_t bytes) noexcept {
  shampoo::test::note_heap(__builtin_return_address(0));
  return __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) noexcept {
  shampoo::test::note_heap(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, std::size_t bytes) noexcept {
  shampoo::test::note_heap(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  shampoo::test::note_heap(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
    return EINVAL;
  const int before = errno;
  void* const found = memalign(alignment, bytes);
  errno = before;
  if (!found) return ENOMEM;
  *memory = found;
  return 0;
}

void* mmap(void* address, std::size_t length, int protection, int flags, int file,
           off_t offset) noexcept {
  return shampoo::test::map(address, length, protection, flags, file, offset);
}

void* mmap64(void* address, std::size_t length, int protection, int flags, int file,
             off64_t offset) noexcept {
  return shampoo::test::map(address, length, protection, flags, file, offset);
}
}
