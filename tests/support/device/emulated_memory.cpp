// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/emulated_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace shampoo::test {

namespace {

constexpr std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Of the pages of a block.
constexpr std::size_t extent(std::size_t bytes) { return rounded(bytes, 4096); }

/// Addresses; what is retired takes no memory.
constexpr std::size_t most_bytes = std::size_t{64} << 30;

char* reserve(void* at, std::size_t bytes, int flags) {
  void* const memory =
      mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

}  // namespace

EmulatedMemory::EmulatedMemory() : begin_(reserve(nullptr, most_bytes, 0)) {}

EmulatedMemory::~EmulatedMemory() { munmap(begin_, most_bytes); }

void* EmulatedMemory::allocate(std::size_t bytes) {
  const std::size_t size = rounded(std::max<std::size_t>(bytes, 1), 256);
  if (extent(size) > most_bytes - used_) throw std::bad_alloc();
  char* const at = begin_ + used_;
  blocks_.emplace(at, size);
  used_ += extent(size);
  bytes_ += size;
  return at;
}

void EmulatedMemory::retire(void* memory) noexcept {
  const auto found = blocks_.find(static_cast<char*>(memory));
  if (found == blocks_.end()) std::abort();
  reserve(found->first, extent(found->second), MAP_FIXED);
  bytes_ -= found->second;
  blocks_.erase(found);
}

void EmulatedMemory::set_accessible(bool accessible) noexcept {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    char* const begin = block->first;
    char* end = begin;
    for (; block != blocks_.end() && block->first == end; ++block) end += extent(block->second);
    if (mprotect(begin, static_cast<std::size_t>(end - begin),
                 accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
      std::abort();
  }
}

}  // namespace shampoo::test
