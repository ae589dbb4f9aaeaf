// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocations.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace shampoo::test {
namespace {

/// Keeps the compiler from leaving an allocation out.
void* kept(void* memory) {
  asm volatile("" : "+r"(memory) : : "memory");
  return memory;
}

TEST(AllocationCounter, CountsNothingWhereNothingIsAllocated) {
  AllocationCounter counter;

  EXPECT_EQ(counter.count(), Allocations{});
}

TEST(AllocationCounter, CountsEveryWayToTheHeap) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer allocates in its own way";
  AllocationCounter counter;
  void* memory[6] = {kept(std::malloc(10)),
                     kept(std::calloc(3, 5)),
                     kept(std::realloc(nullptr, 7)),
                     kept(std::aligned_alloc(64, 128)),
                     nullptr,
                     kept(::operator new(9))};
  const int refused = posix_memalign(&memory[4], 64, 100);
  const std::int64_t seen = counter.count().heap;

  EXPECT_EQ(refused, 0);
  EXPECT_EQ(seen, 6);
  for (int i = 0; i < 5; ++i) std::free(memory[i]);
  ::operator delete(memory[5]);
}

TEST(AllocationCounter, GivesAlignedMemory) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer allocates in its own way";
  void* memory = nullptr;

  EXPECT_EQ(posix_memalign(&memory, 256, 3), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
  std::free(memory);
  EXPECT_EQ(posix_memalign(&memory, 3, 8), EINVAL);
}

TEST(AllocationCounter, CountsMappedMemory) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer allocates in its own way";
  AllocationCounter counter;

  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  EXPECT_EQ(counter.count().mapped, 1);
  ASSERT_NE(page, MAP_FAILED);
  munmap(page, 4096);
}

TEST(AllocationCounter, SeesSharedLibraries) {
  AllocationCounter counter;

  void* const copied_by_libc = kept(strdup("some text"));
  const std::int64_t in_libc = counter.count().heap;
  const std::filesystem::path found_by_libstdcxx = std::filesystem::current_path();
  const std::int64_t in_both = counter.count().heap;

  EXPECT_EQ(in_libc, 1);
  EXPECT_GT(in_both, in_libc);
  EXPECT_FALSE(found_by_libstdcxx.empty());
  std::free(copied_by_libc);
}

TEST(AllocationCounter, SeesOtherThreads) {
  void* memory = nullptr;
  std::int64_t seen = 0;
  {
    AllocationCounter counter;
    std::thread other([&memory] { memory = kept(std::malloc(10)); });
    other.join();
    seen = counter.count().heap;
  }
  std::free(memory);

  EXPECT_GE(seen, 2);  // the thread's own start, and its request
}

TEST(AllocationCounter, StopsWithItsLife) {
  { const AllocationCounter counter; }
  std::free(kept(std::malloc(10)));

  EXPECT_EQ(AllocationCounter().count(), Allocations{});
}

}  // namespace
}  // namespace shampoo::test
