// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "distributor/communicator.h"

namespace shampoo {

/// The subset of NCCL and of the CUDA runtime that the transport uses, so that tests can replace
/// both by threads. Handles are those of the libraries.
///
/// Calls do not block unless documented, and are allowed on any thread. Failures are thrown as
/// CommunicationError with the message of the library.
class NcclApi {
 public:
  using Comm = void*;
  using Stream = void*;
  using Event = void*;

  struct Position {
    int rank, size;
  };

  virtual ~NcclApi() = default;

  // Communicators. Calls are asynchronous: after each, no other call is allowed on the communicator
  // until is_ready() returns true.
  virtual std::string description() = 0;
  /// Unique among the devices of a host.
  virtual std::string device_name() = 0;
  virtual std::string unique_id() = 0;
  virtual Comm connect(const Position& position, const std::string& unique_id) = 0;
  /// `subset` is written when both are ready; it stays null for a negative color.
  virtual void split(Comm comm, int color, int key, Comm& subset) = 0;
  /// Throws asynchronous errors.
  virtual bool is_ready(Comm comm) = 0;
  virtual Position position(Comm comm) = 0;
  virtual void finalize(Comm comm) = 0;
  virtual void destroy(Comm comm) noexcept = 0;  ///< after finalize()
  /// Aborts pending collectives on this rank and destroys the communicator. May block.
  virtual void abort(Comm comm) noexcept = 0;

  // Collectives. Those between begin_group() and end_group() on one thread are one launch.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual void all_gather(const void* send, void* receive, std::int64_t bytes, Comm comm,
                          Stream stream) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root, Comm comm, Stream stream) = 0;
  virtual void send(const void* data, std::int64_t bytes, int to, Comm comm, Stream stream) = 0;
  virtual void receive(void* data, std::int64_t bytes, int from, Comm comm, Stream stream) = 0;
  /// All-reduces one byte.
  virtual void barrier(void* byte, Comm comm, Stream stream) = 0;
  /// Null if not possible for this memory.
  virtual void* register_memory(Comm comm, void* memory, std::int64_t bytes) = 0;
  virtual void deregister_memory(Comm comm, void* registration) noexcept = 0;

  // The device.
  /// Must be called first on a thread other than the user's.
  virtual void enter_thread() = 0;
  virtual Stream make_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  virtual Event make_event() = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  virtual void wait(Stream stream, Event event) = 0;  ///< does not block the host
  /// The same, except that a capture takes them as work of every replay: events recorded inside and
  /// outside of it may meet.
  virtual void record_external(Event event, Stream stream) = 0;
  virtual void wait_external(Stream stream, Event event) = 0;
  virtual bool is_done(Event event) = 0;  ///< not for events recorded in a capture by record()
  virtual std::uint64_t capture_of(Stream stream) = 0;  ///< unique in the process; 0: none
  bool is_capturing(Stream stream) { return capture_of(stream) != 0; }

  /// Zeroed memory that register_memory() takes; null if there is none. Block.
  virtual void* allocate_registrable(std::size_t bytes) = 0;
  virtual void release_registrable(void* memory) noexcept = 0;
  virtual void* allocate(std::size_t bytes) = 0;  ///< may block
  virtual void release(void* memory) noexcept = 0;
  /// To, from or within device memory.
  virtual void copy(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  /// See shampoo::ordered_sum(); all in device memory.
  virtual void ordered_sum(const void* parts, int n, std::int64_t count, Type type, double divisor,
                           void* sum, Stream stream) = 0;
};

/// For the CUDA device with this index.
std::unique_ptr<NcclApi> make_nccl_api(int device);

/// ordered_sum() in device memory, queued on the stream; bit-identical except for NaN payloads.
/// Returns 0 or an error code of the CUDA runtime.
int ordered_sum_on(StreamRef stream, const void* parts, int n, std::int64_t count, Type type,
                   double divisor, void* sum);

}  // namespace shampoo
