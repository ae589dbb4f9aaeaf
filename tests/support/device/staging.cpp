// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace shampoo::test {

namespace {

constexpr std::size_t margin = 256;
constexpr std::byte guard{0xc3};

}  // namespace

Staging::~Staging() {
  for (const auto& [host, copy] : copies_) backend_.release(copy.memory);
  for (void* const memory : table_memory_) backend_.release(memory);
}

void Staging::note(const void* host, std::size_t bytes) {
  if (host == nullptr || bytes == 0) return;
  std::byte* first = static_cast<std::byte*>(const_cast<void*>(host));
  std::byte* last = first + bytes;
  // Ranges that overlap become one.
  auto it = copies_.upper_bound(first);
  if (it != copies_.begin() && std::prev(it)->first + std::prev(it)->second.bytes > first) --it;
  while (it != copies_.end() && it->first < last) {
    first = std::min(first, it->first);
    last = std::max(last, it->first + it->second.bytes);
    it = copies_.erase(it);
  }
  copies_[first] = {static_cast<std::size_t>(last - first)};
}

void Staging::begin() {
  for (auto& [host, copy] : copies_) {
    const std::size_t all = copy.bytes + 3 * margin;
    copy.memory = backend_.allocate(all);
    const std::size_t shift = margin + reinterpret_cast<std::uintptr_t>(host) % margin;
    copy.data = static_cast<std::byte*>(copy.memory) + shift;
    std::vector<std::byte> bytes(all, guard);
    std::copy(host, host + copy.bytes, bytes.begin() + static_cast<std::ptrdiff_t>(shift));
    backend_.upload(copy.memory, bytes.data(), all);
    backend_.synchronize();
  }
}

const void* Staging::find(const void* host) {
  if (host == nullptr) return nullptr;
  std::byte* const at = static_cast<std::byte*>(const_cast<void*>(host));
  auto it = copies_.upper_bound(at);
  if (it == copies_.begin()) return nullptr;
  --it;
  // An array without elements was never noted; its address must not be dereferenced.
  if (at >= it->first + it->second.bytes) return nullptr;
  return it->second.data + (at - it->first);
}

const void* Staging::send(std::vector<void*> pointers) {
  const std::size_t bytes = pointers.size() * sizeof(void*);
  if (bytes == 0) return nullptr;
  tables_.push_back(std::move(pointers));
  table_memory_.push_back(backend_.allocate(bytes));
  backend_.upload(table_memory_.back(), tables_.back().data(), bytes);
  return table_memory_.back();
}

void Staging::finish() {
  for (const auto& [host, copy] : copies_) bring_back(host, copy);
}

void Staging::bring_back(std::byte* host, const Copy& copy) {
  std::vector<std::byte> bytes(copy.bytes + 3 * margin);
  backend_.download(bytes.data(), copy.memory, bytes.size());
  backend_.synchronize();
  const auto is_guard = [](std::byte b) { return b == guard; };
  const auto data = bytes.begin() + (copy.data - static_cast<std::byte*>(copy.memory));
  const auto end = data + static_cast<std::ptrdiff_t>(copy.bytes);
  EXPECT_TRUE(std::all_of(bytes.begin(), data, is_guard)) << "written before an array";
  EXPECT_TRUE(std::all_of(end, bytes.end(), is_guard)) << "written behind an array";
  // What was only read may lie in constant memory.
  if (!std::equal(data, end, host)) std::copy(data, end, host);
}

}  // namespace shampoo::test
