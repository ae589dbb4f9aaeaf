// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "distributor/store/synchronized_store.h"

namespace shampoo {

/// Connections of this rank to all others of a communicator, inside the module. Calls block, and
/// throw a std::exception where Gloo fails; then the connections are in an unknown state. The
/// deadline is that of each message. `tag`: see GlooTransport.
class GlooMesh {
 public:
  using Counts = std::span<const std::int64_t>;

  virtual ~GlooMesh() = default;
  virtual void set_deadline(std::chrono::milliseconds deadline) = 0;
  virtual void all_gather(void* data, Counts counts, std::uint32_t tag) = 0;
  /// A slot of Gloo for the message to and from each rank.
  using Slots = std::span<const std::uint64_t>;
  virtual void all_to_all(const void* send, Counts send_counts, Slots send_slots, void* receive,
                          Counts receive_counts, Slots receive_slots) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root, std::uint32_t tag) = 0;
  virtual void barrier(std::uint32_t tag) = 0;
  /// Ends pending calls, on both sides of each connection. Callable from any thread.
  virtual void close() noexcept = 0;
  /// Removes the keys that connecting has set on this rank, once all ranks are connected.
  virtual void remove_keys() noexcept = 0;
};

/// An address of this host at which the other ranks reach this one, inside the module.
class GlooListener {
 public:
  struct Rendezvous {
    int rank, size;
    std::shared_ptr<SynchronizedStore> store;
    std::string prefix;  ///< of the keys of this mesh
    std::chrono::milliseconds deadline;
    std::chrono::steady_clock::time_point end;
  };

  virtual ~GlooListener() = default;
  /// Collective. Throws a std::exception.
  virtual std::unique_ptr<GlooMesh> connect(const Rendezvous& rendezvous) = 0;
};

/// What libshampoo_gloo.so has for the library.
struct GlooModule {
  const char* shampoo_version;  ///< of both, which must be equal
  std::array<int, 3> gloo_version;
  /// Throws a std::exception if `host` is no address or name of this host.
  std::shared_ptr<GlooListener> (*listen)(const std::string& host);
};

/// The module, loaded by the first call. Throws std::invalid_argument, naming package, option and
/// the folders that were searched, if it cannot be loaded.
const GlooModule& gloo_module();

}  // namespace shampoo
