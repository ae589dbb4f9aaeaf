// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstddef>

#include "tests/support/allocations.h"

// Of the sanitizers' run-time library.
extern "C" int __sanitizer_install_malloc_and_free_hooks(  // NOLINT(bugprone-reserved-identifier)
    void (*malloc_hook)(const volatile void*, std::size_t),
    void (*free_hook)(const volatile void*));

namespace shampoo::test {
namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> heap_requests{0};

void note(const volatile void*, std::size_t) {
  if (counting.load(std::memory_order_relaxed))
    heap_requests.fetch_add(1, std::memory_order_relaxed);
}

void ignore(const volatile void*) {}

}  // namespace

AllocationCounter::AllocationCounter() {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(note, ignore);
  static_cast<void>(installed);
  heap_requests = 0;
  counting = true;
}

AllocationCounter::~AllocationCounter() { counting = false; }

Allocations AllocationCounter::count() const { return {heap_requests, 0}; }

bool AllocationCounter::sees_everything() { return false; }

}  // namespace shampoo::test
