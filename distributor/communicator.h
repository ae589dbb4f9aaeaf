// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/error.h"
#include "kernels/backend.h"

namespace shampoo {

/// A stream of the device on whose memory a collective works; empty for host memory. Borrowed.
struct StreamRef {
  void* handle = nullptr;
};

/// How buffers are lent to a collective.
struct BufferLease {
  StreamRef stream = {};  ///< the collective runs in order with it
  /// Kept for as long as the transport may touch the buffers. After a missed deadline that can be
  /// longer than the call; without an owner the caller must then keep them until the process ends.
  std::shared_ptr<const void> owner = nullptr;
};

/// Numbers that average() works on. Borrowed.
struct Numbers {
  void* data = nullptr;
  std::int64_t count = 0;
  Type type = Type::float32;
};

class Communicator;
class Reducer;

/// Names one started collective. The communicator must outlive it.
class Completion {
 public:
  /// `operation` must live for ever: it names the collective in messages.
  Completion(Communicator& communicator, std::uint64_t ticket, std::string_view operation)
      : communicator_(&communicator), ticket_(ticket), operation_(operation) {}

  /// In host memory: waits until the collective has completed on this rank, at most until its
  /// deadline. In CUDA memory: the stream of the loan waits, and the host does not.
  /// Throws CommunicationError.
  void wait();

 private:
  Communicator* communicator_;
  std::uint64_t ticket_;
  std::string_view operation_;
};

/// Where a rank stands in its communicator.
struct RankInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks of its host
  MemoryKind memory = MemoryKind::host;
};

/// Ranks that work together on bytes.
///
/// Collectives are started by all ranks in the same order with arguments that fit. Buffers are
/// borrowed until the completion. Every collective has a deadline. After the first failure, on this
/// rank or heard of from another, every call throws the same CommunicationError at once. Calls of
/// one communicator are not concurrent, but for abort() and failure().
///
/// In CUDA memory a collective runs in order with the stream of its loan: behind the work that lay
/// there at its start, before the work that comes there after its completion's wait(). The host
/// waits for neither, so what goes wrong is noticed after these calls: the deadline counts from
/// when the stream comes to the collective; when it is over, or the transport reports an error, the
/// transport is shut down. Then the stream runs on, with buffers of no meaning, and later calls
/// throw. So who has waited for the stream calls check() before using what arrived.
class Communicator {
 public:
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  int rank() const { return standing_.rank; }
  int size() const { return standing_.size; }
  int local_rank() const { return standing_.local_rank; }
  /// Where buffers must lie.
  MemoryKind memory() const { return standing_.memory; }
  /// For people: the transport and its library.
  virtual std::string description() const = 0;

  /// `everyone` holds counts[r] bytes (0 allowed) for every rank r, back to back; each rank has
  /// written its own part and gets those of the others.
  /// Throws std::invalid_argument for a wrong number of counts, or a negative one.
  Completion all_gather(void* everyone, std::span<const std::int64_t> counts,
                        const BufferLease& loan = {});

  /// Sends send_counts[r] bytes (0 allowed) to every rank r, back to back in `send`, and receives
  /// receive_counts[r] from it.
  Completion all_to_all(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                        std::span<const std::int64_t> receive_counts, const BufferLease& loan = {});

  /// `data` of rank `root` reaches all ranks.
  Completion broadcast(void* data, std::int64_t bytes, int root, const BufferLease& loan = {});

  /// Completes when all ranks have come here.
  Completion barrier(const BufferLease& loan = {});

  /// own <- sum over the ranks, in their order, of the part of `all` that belongs to this rank:
  /// counts[r] numbers of `type` for every rank r. Sums of 16-bit numbers are kept in float32 and
  /// rounded once. The bits are the same for all transports. In host memory it has completed when
  /// it returns, in CUDA memory it is in order with the stream; so with the following two.
  void reduce_scatter(const void* all, void* own, std::span<const std::int64_t> counts, Type type,
                      StreamRef stream = {});

  /// numbers <- sum over the ranks, as reduce_scatter() computes it.
  void all_reduce(void* numbers, std::int64_t count, Type type, StreamRef stream = {});

  /// tensors <- their mean over the ranks: summed as by all_reduce(), then divided by the number of
  /// ranks. All ranks pass the same counts and types. Keeps scratch memory for later calls.
  void average(std::span<const Numbers> tensors, StreamRef stream = {});
  void average(std::initializer_list<Numbers> tensors, StreamRef stream = {}) {
    average({tensors.begin(), tensors.size()}, stream);
  }

  /// Collective: ranks with the same color >= 0 get a communicator of their own, in the order of
  /// `key`, then of rank; those with a negative color none. It does not need this one to live on.
  std::unique_ptr<Communicator> split(int color, int key);

  /// Gives up: this rank and, as far as the transport reaches them, the others get a
  /// CommunicationError with the reason from pending and later calls. Safe from any thread.
  void abort(std::string_view reason) noexcept;

  /// Longest time of a collective, from its start. 10 minutes unless set; from 1 ms to a year.
  std::chrono::milliseconds deadline() const { return deadline_; }
  /// Throws std::invalid_argument out of range. The same on all ranks.
  void set_deadline(std::chrono::milliseconds deadline);

  /// Why the communicator can no longer be used; empty while it can.
  std::string failure() const;
  /// Throws the CommunicationError of the first failure, if there was one. Does not wait.
  void check() const;

  /// Tells the transport of memory that collectives will use often; it may prepare it. The memory
  /// and the communicator must outlive what is returned, which may be null.
  virtual std::shared_ptr<const void> prepare(void*, std::int64_t) { return nullptr; }
  /// Starts a deadline for all that now lies on the stream: for collectives that were captured in a
  /// graph, whose replays nobody else announces. Only CUDA memory needs it.
  virtual void watch(StreamRef) {}

 protected:
  explicit Communicator(const RankInfo& standing) : standing_(standing) {}

  /// One member of a sub-set, as split() found it.
  struct Member {
    int rank;  ///< here
    int local_rank;
  };

  /// Makes `cause` the failure, unless there is one. From any thread.
  void report(std::uint64_t ticket, std::string_view operation, const CommunicationError& cause);

 private:
  friend class Completion;

  // What a transport does. Arguments are checked; a failure is thrown as CommunicationError with a
  // message that goes on after "all_gather: ".
  virtual void start_all_gather(std::uint64_t ticket, void* everyone,
                                std::span<const std::int64_t> counts, const BufferLease& loan) = 0;
  virtual void start_all_to_all(std::uint64_t ticket, const void* send,
                                std::span<const std::int64_t> send_counts, void* receive,
                                std::span<const std::int64_t> receive_counts,
                                const BufferLease& loan) = 0;
  virtual void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                               const BufferLease& loan) = 0;
  virtual void start_barrier(std::uint64_t ticket, const BufferLease& loan) = 0;
  /// Waits for a started collective; called at most once for a ticket, in any order.
  virtual void finish(std::uint64_t ticket) = 0;
  /// `members` in their new order, of which this rank is one; `index` counts the splits so far.
  /// Called by all ranks; `members` is empty for a rank that belongs to none.
  virtual std::unique_ptr<Communicator> make_split(std::span<const Member> members, int color,
                                                   std::uint64_t index) = 0;
  /// Reaches the other ranks as far as it can. From any thread, once.
  virtual void tear_down(std::string_view reason) noexcept = 0;
  virtual void deadline_changed() {}
  /// As all_gather(), of `bytes` from every rank in host memory; waits.
  virtual void gather_on_host(std::shared_ptr<void> everyone, std::int64_t bytes);
  virtual std::shared_ptr<Reducer> make_summing();

  template <typename Body>
  Completion start(std::string_view operation, const Body& body);
  void wait(std::uint64_t ticket, std::string_view operation);
  [[noreturn]] void fail(std::uint64_t ticket, std::string_view operation,
                         const CommunicationError& cause);
  void check_counts(std::string_view operation, std::span<const std::int64_t> counts) const;
  void check_host(std::string_view operation) const;
  void sum(std::span<const Numbers> tensors, std::string_view operation, double divisor,
           StreamRef stream);
  void sum_packed(std::int64_t bytes, Type type, double divisor, StreamRef stream);
  const std::shared_ptr<Reducer>& summing();

  RankInfo standing_;
  std::chrono::milliseconds deadline_ = std::chrono::minutes(10);
  std::uint64_t tickets_ = 0, splits_ = 0;
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::vector<int> missing_;
  std::shared_ptr<Reducer> summing_;
};

/// One rank. Every collective has completed when its call returns. `memory` is where buffers lie:
/// that of the backend, of either kind.
std::unique_ptr<Communicator> one_rank(MemoryKind memory = MemoryKind::host);

}  // namespace shampoo
