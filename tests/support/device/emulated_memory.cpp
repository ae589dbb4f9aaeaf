// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/emulated_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace shampoo::test {

namespace {

constexpr std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Addresses; what is retired takes no memory.
constexpr std::size_t most_bytes = std::size_t{64} << 30;

/// Access to a huge page changes as fast as to a page.
constexpr std::size_t page = 4096, huge_page = std::size_t{2} << 20;
constexpr std::size_t least_large = huge_page / 8;

/// Of the pages of a block.
constexpr std::size_t extent(std::size_t bytes) { return rounded(bytes, page); }

char* up_to_huge_page(char* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return at + (rounded(address, huge_page) - address);
}

char* reserve(void* at, std::size_t bytes, int flags) {
  void* const memory =
      mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

}  // namespace

EmulatedMemory::EmulatedMemory() : begin_(reserve(nullptr, most_bytes, 0)) {
  char* const middle = begin_ + most_bytes / 2;
  small_ = {begin_, middle};
  large_ = {up_to_huge_page(middle), begin_ + most_bytes - huge_page};
  madvise(middle, most_bytes / 2, MADV_HUGEPAGE);  // may fail: it only makes tests faster
}

EmulatedMemory::~EmulatedMemory() { munmap(begin_, most_bytes); }

void* EmulatedMemory::allocate(std::size_t bytes) {
  const std::size_t size = rounded(std::max<std::size_t>(bytes, 1), 256);
  Region& region = size >= least_large ? large_ : small_;
  if (extent(size) > static_cast<std::size_t>(region.end - region.next)) throw std::bad_alloc();
  blocks_.emplace(region.next, size);
  bytes_ += size;
  return std::exchange(region.next, region.next + extent(size));
}

char* EmulatedMemory::end_of(const Blocks::value_type& block) const noexcept {
  char* const end = block.first + extent(block.second);
  return end == large_.next ? up_to_huge_page(end) : end;
}

void EmulatedMemory::retire(void* memory) noexcept {
  const auto found = blocks_.find(static_cast<char*>(memory));
  if (found == blocks_.end()) std::abort();
  reserve(found->first, static_cast<std::size_t>(end_of(*found) - found->first), MAP_FIXED);
  bytes_ -= found->second;
  blocks_.erase(found);
}

void EmulatedMemory::set_accessible(bool accessible) noexcept {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    char* const begin = block->first;
    char* end = begin;
    for (; block != blocks_.end() && block->first == end; ++block) end = end_of(*block);
    if (mprotect(begin, static_cast<std::size_t>(end - begin),
                 accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
      std::abort();
  }
}

}  // namespace shampoo::test
