// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shampoo/kernels/types.h"

namespace shampoo {

class Communicator;
class Reducer;
class CollectiveTransport;

/// A rank is unreachable, stalled or inconsistent with the others. If the message says that the
/// optimizer can no longer be used, every later step throws until a state is loaded.
class CommunicationError : public std::runtime_error {
 public:
  explicit CommunicationError(const std::string& message, std::vector<int> missing_ranks = {})
      : std::runtime_error(message), missing_ranks_(std::move(missing_ranks)) {}

  /// Ranks known not to have responded; empty if unknown.
  const std::vector<int>& missing_ranks() const { return missing_ranks_; }

 private:
  std::vector<int> missing_ranks_;
};

/// A device stream; the default stream, or host memory, if the handle is null. Borrowed.
struct StreamRef {
  void* handle = nullptr;
};

/// Stream ordering and lifetime of a collective's buffers.
struct BufferLease {
  StreamRef stream = {};  ///< the collective runs in the order of this stream
  /// Held until the transport can no longer access the buffers, which may outlast a missed
  /// deadline. If null, the caller keeps the buffers alive until the process ends in that case.
  std::shared_ptr<const void> keep_alive = nullptr;
};

/// A contiguous tensor for average() and broadcast(). Borrowed.
struct TensorSpan {
  void* data = nullptr;
  std::int64_t count = 0;  ///< elements, less than 2^59
  Type type = Type::float32;
};

/// Position of a process in a communicator.
struct RankInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;                    ///< rank among the processes of the same host
  MemoryKind memory = MemoryKind::host;  ///< memory space of all buffers
};

/// A collective as one rank calls it.
struct CollectiveCall {
  std::uint64_t ticket = 0;         ///< number of the collective on its communicator, from 1
  std::string_view operation = {};  ///< "all_gather"; of static lifetime
  std::string_view caller = {};     ///< "step", "average"; of static lifetime, may be empty
  std::int64_t caller_number = 0;   ///< which step; 0: none
  std::int64_t bytes = 0;           ///< sent and received, all ranks together, as this rank sees it
  /// Equal on ranks whose calls match: a hash of operation and sizes, and in reductions of the
  /// list of tensors. The counts of all_to_all() differ between ranks and are left out.
  std::uint64_t signature = 0;

  /// "all_gather of 96 bytes (collective 19, step 6)".
  std::string text() const;
};

/// A started collective. The communicator must outlive it.
class [[nodiscard]] CollectiveHandle {
 public:
  /// Host memory: blocks until the collective has completed on this rank or its deadline has
  /// passed. CUDA memory: makes the stream of the lease wait; the host does not block.
  /// Throws CommunicationError.
  void wait();

 private:
  friend class Communicator;
  CollectiveHandle(Communicator& communicator, const CollectiveCall& call)
      : communicator_(&communicator), call_(call) {}

  Communicator* communicator_;
  CollectiveCall call_;
};

/// Byte-based collectives between the ranks of a job.
///
/// All ranks start the same collectives in the same order with matching arguments. Ranks that do
/// not are told so by a CommunicationError that names both calls; distributor/README.md says how
/// soon for each transport. Buffers are borrowed until the collective has completed. Each
/// collective has a deadline. The first failure, local or remote, is permanent: every later call
/// throws the same CommunicationError at once.
/// Not thread-safe, except for abort(), failure() and check(). Invalid arguments throw
/// std::invalid_argument on the calling rank only, before anything is sent.
///
/// In CUDA memory, a collective is ordered after earlier work of its stream, and wait() orders it
/// before later work; the host never blocks, so errors surface later. The deadline then counts
/// from the time the stream reaches the collective. On a missed deadline or a transport error the
/// transport is shut down, the stream continues with undefined buffer contents, and later calls
/// throw: after synchronizing the stream, call check() before using received data.
class Communicator {
 public:
  using Counts = std::span<const std::int64_t>;  ///< one entry per rank, each >= 0

  explicit Communicator(std::unique_ptr<CollectiveTransport> transport);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  int local_rank() const { return info_.local_rank; }
  MemoryKind memory() const { return info_.memory; }
  /// Human-readable name and version of the transport.
  std::string description() const;

  /// In place: `data` holds counts[r] bytes of every rank r, back to back. Each rank has written
  /// its own part and receives the others.
  CollectiveHandle all_gather(void* data, Counts counts, const BufferLease& lease = {});

  /// Sends send_counts[r] bytes to each rank r, back to back in `send`, and receives
  /// receive_counts[r] bytes from it into `receive`. The two must not overlap.
  CollectiveHandle all_to_all(const void* send, Counts send_counts, void* receive,
                              Counts receive_counts, const BufferLease& lease = {});

  /// data <- `bytes` bytes of rank `root`.
  CollectiveHandle broadcast(void* data, std::int64_t bytes, int root,
                             const BufferLease& lease = {});
  /// tensors <- those of rank `root`, as values before the first step. Counts and types are equal
  /// on all ranks, in the same order. One collective each; blocks in host memory.
  void broadcast(std::span<const TensorSpan> tensors, int root = 0, StreamRef stream = {});
  void broadcast(std::initializer_list<TensorSpan> tensors, int root = 0, StreamRef stream = {}) {
    broadcast({tensors.begin(), tensors.size()}, root, stream);
  }

  /// Completes once every rank has reached it.
  CollectiveHandle barrier(const BufferLease& lease = {});

  /// own <- sum over ranks, in rank order, of this rank's part of `all`, which holds counts[r]
  /// elements for each rank r. 16-bit types are summed in float32 and rounded once. The result is
  /// bit-identical on all transports. Blocks in host memory; in CUDA memory ordered with `stream`
  /// and behind earlier reductions, on whatever stream.
  void reduce_scatter(const void* all, void* own, Counts counts, Type type, StreamRef stream = {});

  /// data <- sum over ranks of `count` elements, with the arithmetic of reduce_scatter(). Blocks
  /// in host memory.
  void all_reduce(void* data, std::int64_t count, Type type, StreamRef stream = {});

  /// tensors <- mean over ranks: summed as by all_reduce(), then divided by size(). Counts and
  /// types must be equal on all ranks, in the same order; see the class for ranks that differ.
  /// Blocks in host memory. Keeps its scratch memory, twice max(64 MiB, 256 KiB * size()) at most.
  void average(std::span<const TensorSpan> tensors, StreamRef stream = {});
  void average(std::initializer_list<TensorSpan> tensors, StreamRef stream = {}) {
    average({tensors.begin(), tensors.size()}, stream);
  }

  /// Ranks with the same color >= 0 form a new communicator, ordered by `key`, then by rank; a
  /// negative color returns null. Independent of this communicator's lifetime. Collective; blocks,
  /// and ends within the deadline, failed or not.
  std::unique_ptr<Communicator> split(int color, int key);

  /// Fails pending and later calls on this rank and, as far as the transport can reach them, on
  /// the others with a CommunicationError that contains `reason`. Callable from any thread.
  void abort(std::string_view reason) noexcept;

  /// Maximum duration of a collective: 10 minutes by default, from 1 ms to one year.
  std::chrono::milliseconds deadline() const;
  /// Must be equal on all ranks. Throws std::invalid_argument if out of range.
  void set_deadline(std::chrono::milliseconds deadline);

  /// Message of the first failure; empty while the communicator is usable.
  std::string failure() const;
  /// Rethrows the first failure, if any, as CommunicationError. Does not block.
  void check() const;

  /// Memory that collectives reach faster: zeroed, and registered with the transport. Null if the
  /// transport has none, as most: then any other memory will do. The communicator must outlive it.
  /// May block.
  std::shared_ptr<void> allocate(std::int64_t bytes);
  /// Starts a deadline for all work now on the stream: for collectives in a replayed CUDA graph,
  /// which the transport cannot observe. No effect in host memory.
  void watch(StreamRef stream);

 private:
  friend class CollectiveHandle;
  friend class CallerName;

  template <typename Body>
  CollectiveHandle start(std::string_view operation, Counts sizes, std::int64_t bytes,
                         const Body& body);
  void wait(const CollectiveCall& call);
  [[noreturn]] void fail(const CollectiveCall& call, const CommunicationError& cause);
  void check_counts(std::string_view operation, Counts counts) const;
  void reduce(std::span<const TensorSpan> tensors, std::string_view operation, double divisor,
              StreamRef stream);
  void reduce_packed(std::int64_t bytes, Type type, double divisor, StreamRef stream);
  const std::shared_ptr<Reducer>& reducer(const void* data);

  std::shared_ptr<Reducer> reducer_;  ///< outlives the transport, which may still hold a lease
  std::unique_ptr<CollectiveTransport> transport_;
  RankInfo info_;
  std::uint64_t tickets_ = 0, splits_ = 0;
  std::string_view caller_ = {};  ///< see CallerName
  std::int64_t caller_number_ = 0;
  std::uint64_t reduction_ = 0;  ///< hash of the running reduction's arguments; 0: none
};

/// A communicator of one rank; every collective has completed when its call returns. `memory` is
/// the backend's memory space. all_to_all() and reduce_scatter() require host memory.
std::unique_ptr<Communicator> single_rank_communicator(MemoryKind memory = MemoryKind::host);

/// Runs body(communicator) concurrently on n threads, each one rank of a communicator in host
/// memory, and joins them. If a rank throws, or returns while others wait for it, the collectives
/// of the others throw CommunicationError. Afterwards the first exception is rethrown; a
/// CommunicationError only if there was no other. Throws std::invalid_argument unless
/// 1 <= n <= 1024, and std::system_error if a thread cannot be started.
void run_ranks(int n, const std::function<void(Communicator&)>& body);

/// Arguments of every callback, in addition to the buffers.
struct CallContext {
  StreamRef stream = {};
  std::chrono::milliseconds deadline = {};  ///< the callback should throw after this duration
  /// A callback that sends `call.signature` along with its data, and throws where that of a peer
  /// differs, finds ranks that are in different calls. Other callbacks may ignore it.
  CollectiveCall call = {};
};

/// User-provided collectives. Each has completed, or is ordered with the stream, when it returns,
/// and reports failure by an exception, which becomes a CommunicationError. See Communicator for
/// the meaning of the buffers and counts. Reductions call all_to_all and all_gather; in CUDA memory
/// they need a build with CUDA, and all buffers on one device.
struct Collectives {
  RankInfo rank_info = {};
  std::string description = "user-provided collectives";

  /// Required.
  std::function<void(void* data, Communicator::Counts counts, const CallContext& context)>
      all_gather = {};
  /// all_to_all, broadcast and barrier are emulated with all_gather if empty, at the cost of more
  /// bytes. In CUDA memory, all_to_all and barrier are required.
  std::function<void(const void* send, Communicator::Counts send_counts, void* receive,
                     Communicator::Counts receive_counts, const CallContext& context)>
      all_to_all = {};
  std::function<void(void* data, std::int64_t bytes, int root, const CallContext& context)>
      broadcast = {};
  std::function<void(const CallContext& context)> barrier = {};
  /// If empty, split() throws std::invalid_argument. `members` are ranks in their new order; if
  /// empty, this rank has no color, and the callback must return null.
  std::function<std::unique_ptr<Communicator>(std::span<const int> members, int color)> split = {};
  /// Notifies the other ranks; may be called on any thread. If empty, abort() affects this rank
  /// only.
  std::function<void(std::string_view reason)> abort = {};
};

/// Throws std::invalid_argument, naming the field, for an invalid rank_info or a missing callback.
std::unique_ptr<Communicator> user_communicator(Collectives collectives);

}  // namespace shampoo
