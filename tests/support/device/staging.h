// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "kernels/facets.h"

namespace shampoo::test {

/// Copies of arrays of the host in a backend's memory, for the time of one call: note() all of
/// them, begin(), call with at() of their addresses, finish(). Copies keep addresses modulo 256
/// bytes, so that what is not aligned stays so, and lie between bytes that the call must not touch.
class Staging {
 public:
  explicit Staging(kernels::Backend& backend) : backend_(backend) {}
  Staging(const Staging&) = delete;
  ~Staging();

  void note(const void* host, std::size_t bytes);
  template <typename T>
  void note_array(const T* host, std::int64_t count) {
    note(host, static_cast<std::size_t>(count) * sizeof(T));
  }
  void begin();

  /// The copy of a noted array; null for null.
  template <typename T>
  T* at(T* host) {
    return static_cast<T*>(const_cast<void*>(find(host)));
  }
  /// An array in the backend's memory of the copies' addresses.
  template <typename T>
  T* const* table(T* const* host, std::int64_t count) {
    std::vector<void*> copies;
    for (std::int64_t i = 0; i < count; ++i) copies.push_back(const_cast<void*>(find(host[i])));
    return static_cast<T* const*>(send(std::move(copies)));
  }

  /// Waits, copies every array back, and reports writes outside of them.
  void finish();

 private:
  struct Copy {
    std::size_t bytes = 0;
    void* memory = nullptr;     ///< whole allocation
    std::byte* data = nullptr;  ///< of the copy
  };
  const void* find(const void* host);
  const void* send(std::vector<void*> pointers);
  void bring_back(std::byte* host, const Copy& copy);

  kernels::Backend& backend_;
  std::map<std::byte*, Copy> copies_;  ///< by address on the host
  std::vector<std::vector<void*>> tables_;
  std::vector<void*> table_memory_;
};

}  // namespace shampoo::test
