// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace shampoo {

/// Connections of one rank of a communicator to others, inside the module. Calls block, and throw a
/// std::exception where Gloo fails; then the connections are in an unknown state. The timeout is
/// that of each message. `tag` and slots: see GlooTransport.
class GlooMesh {
 public:
  using Counts = std::span<const std::int64_t>;
  using Slots = std::span<const std::uint64_t>;

  virtual ~GlooMesh() = default;
  /// The ranks that connect() connects with.
  virtual std::vector<int> near_ranks() const = 0;
  /// What each of near_ranks() needs to connect with this rank.
  virtual std::string addresses() const = 0;
  /// `addresses`: those of each of near_ranks(). Waits for them.
  virtual void connect(const std::map<int, std::string>& addresses) = 0;
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  virtual void all_gather(void* data, Counts counts, std::uint32_t tag) = 0;
  /// The slots are those of the messages to and from each rank, all different from Gloo's own.
  virtual void all_to_all(const void* send, Counts send_counts, Slots send_slots, void* receive,
                          Counts receive_counts, Slots receive_slots) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root, std::uint32_t tag) = 0;
  virtual void barrier(std::uint32_t tag) = 0;
  /// Ends pending calls, on both sides of each connection. Callable from any thread.
  virtual void close() noexcept = 0;
};

/// An address of this host at which the other ranks reach this one, inside the module.
class GlooListener {
 public:
  virtual ~GlooListener() = default;
  /// `timeout`: that of connecting, too. Throws a std::exception.
  virtual std::unique_ptr<GlooMesh> make_mesh(int rank, int size,
                                              std::chrono::milliseconds timeout) = 0;
};

/// What libshampoo_gloo.so has for the library.
struct GlooModule {
  const char* shampoo_version;  ///< of both, which must be equal
  std::array<int, 3> gloo_version;
  /// Throws a std::exception, also if `host` is no address or name of this host.
  std::shared_ptr<GlooListener> (*listen)(const std::string& host);
};

/// The module, loaded by the first call. Throws std::invalid_argument, naming package, option and
/// the folders that were searched, if it cannot be loaded.
const GlooModule& gloo_module();

}  // namespace shampoo
