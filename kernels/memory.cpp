// SPDX-License-Identifier: Apache-2.0
#include "kernels/memory.h"

namespace shampoo::kernels {

namespace {

/// Nothing is ever pending.
class ImmediateMark final : public Mark {
 public:
  void set() override {}
  void wait() override {}
};

}  // namespace

void* Memory::allocate_host(std::size_t bytes) { return allocate(bytes); }
void Memory::release_host(void* memory) noexcept { release(memory); }
std::unique_ptr<Mark> Memory::make_mark() { return std::make_unique<ImmediateMark>(); }

}  // namespace shampoo::kernels
