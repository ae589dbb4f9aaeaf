// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>

namespace shampoo::test {

/// Memory of which no address is handed out twice: whoever uses it after retire() crashes.
class EmulatedMemory {
 public:
  EmulatedMemory();  ///< throws std::bad_alloc
  ~EmulatedMemory();
  EmulatedMemory(const EmulatedMemory&) = delete;
  EmulatedMemory& operator=(const EmulatedMemory&) = delete;

  void* allocate(std::size_t bytes);  ///< zeroed, not accessible; throws std::bad_alloc
  /// Aborts unless this is memory of allocate() that was not retired.
  void retire(void* memory) noexcept;
  /// Of all that was not retired.
  void set_accessible(bool accessible) noexcept;

  /// In multiples of 256 each: what is allocated and not retired, of this block or all.
  std::size_t bytes(void* memory) const { return blocks_.at(static_cast<char*>(memory)); }
  std::size_t bytes() const { return bytes_; }

 private:
  /// Addresses that were not handed out.
  struct Region {
    char* next = nullptr;
    char* end = nullptr;
  };

  using Blocks = std::map<char*, std::size_t>;  ///< their bytes

  /// Of the memory whose access changes with a block's: with the last large one's, that of the rest
  /// of its huge page.
  char* end_of(const Blocks::value_type& block) const noexcept;

  char* const begin_;
  Region small_, large_;  ///< for blocks in pages; in huge ones
  std::size_t bytes_ = 0;
  Blocks blocks_;
};

}  // namespace shampoo::test
