// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "distributor/communicator.h"

namespace shampoo {

/// What the communicator of NCCL asks of NCCL and of the CUDA runtime: nccl_calls.cpp has it from
/// them, and a test plays them on threads. Handles are the libraries' own.
///
/// No call waits but those that say so, and all may be made on any thread. A failure is thrown as
/// CommunicationError in the library's words.
class NcclCalls {
 public:
  using Comm = void*;
  using Stream = void*;
  using Event = void*;

  struct Place {
    int rank, size;
  };

  virtual ~NcclCalls() = default;

  // Communicators. What was asked of one is under way, and nothing else may be asked of it, until
  // is_ready().
  virtual std::string description() = 0;
  /// Tells devices of one host apart.
  virtual std::string device_name() = 0;
  virtual std::string unique_id() = 0;
  virtual Comm connect(const Place& place, const std::string& unique_id) = 0;
  /// `part` is written when both are ready; it stays null with a negative color.
  virtual void split(Comm comm, int color, int key, Comm& part) = 0;
  /// Throws what has gone wrong since.
  virtual bool is_ready(Comm comm) = 0;
  virtual Place place(Comm comm) = 0;
  virtual void finalize(Comm comm) = 0;
  virtual void destroy(Comm comm) noexcept = 0;  ///< after finalize()
  /// Ends what is pending on this rank, and destroys it. May wait.
  virtual void abort(Comm comm) noexcept = 0;

  // Collectives. Those between begin_group() and end_group(), on one thread, are one launch.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual void all_gather(const void* send, void* receive, std::int64_t bytes, Comm comm,
                          Stream stream) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root, Comm comm, Stream stream) = 0;
  virtual void send(const void* data, std::int64_t bytes, int to, Comm comm, Stream stream) = 0;
  virtual void receive(void* data, std::int64_t bytes, int from, Comm comm, Stream stream) = 0;
  /// Sums one byte, for its effect on time.
  virtual void meet(void* byte, Comm comm, Stream stream) = 0;
  /// Null where this cannot be done for this memory.
  virtual void* register_memory(Comm comm, void* memory, std::int64_t bytes) = 0;
  virtual void deregister_memory(Comm comm, void* registration) noexcept = 0;

  // The device.
  /// To be called first on a thread that is not the caller's.
  virtual void enter_thread() = 0;
  virtual Stream make_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  virtual Event make_event() = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  virtual void wait(Stream stream, Event event) = 0;  ///< the stream waits
  virtual bool is_done(Event event) = 0;              ///< not for one recorded in a capture
  virtual bool is_capturing(Stream stream) = 0;

  virtual void* allocate(std::size_t bytes) = 0;  ///< may wait
  virtual void release(void* memory) noexcept = 0;
  /// To, from or inside the device's memory.
  virtual void copy(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  /// See sum_in_order(); all in the device's memory.
  virtual void sum_in_order(const void* parts, int n, std::int64_t count, Type type, double divisor,
                            void* sum, Stream stream) = 0;
};

/// Of a CUDA device; its index.
std::unique_ptr<NcclCalls> nccl_calls(int device);

}  // namespace shampoo
