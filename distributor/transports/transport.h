// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/communicator.h"

namespace shampoo {

/// A year of 365 days.
inline constexpr std::chrono::milliseconds longest_deadline = std::chrono::days(365);

/// Throws std::invalid_argument outside 1 ms to one year.
void validate_deadline(std::chrono::milliseconds deadline);
/// Throws std::invalid_argument that names the field, behind `prefix`: "rank_info.size: ...".
void validate_rank_info(const RankInfo& info, const std::string& prefix);

/// The first failure of a communicator. Thread-safe.
class FailureState {
 public:
  FailureState(int rank, int size) : rank_(rank), size_(size) {}

  /// Records `cause` unless there is a failure already.
  void report(const CollectiveCall& call, const CommunicationError& cause);
  /// The same for abort() on this rank. Returns false if there is a failure already.
  bool report_abort(std::string_view reason);
  /// Empty without a failure.
  std::string message() const;
  /// Throws the failure, if any.
  void check() const;

 private:
  std::string prefix() const;

  const int rank_, size_;
  mutable std::mutex mutex_;
  std::string message_;
  std::vector<int> missing_;
};

/// Interface that a transport implements. Communicator, its only caller, has validated the
/// arguments (see there for their meaning), counts collectives by ticket, and makes the first
/// CommunicationError permanent.
class CollectiveTransport {
 public:
  using Counts = Communicator::Counts;

  /// A rank of a subset.
  struct Member {
    int rank;  ///< in the parent
    int local_rank;
  };
  struct Subset {
    std::span<const Member> members;  ///< ranks in their new order; empty if this rank has no color
    int color;
    int rank;                                   ///< new rank of this process
    std::uint64_t index;                        ///< number of earlier splits of the parent
    std::chrono::steady_clock::time_point end;  ///< when splitting must be over, failed or not
  };

  explicit CollectiveTransport(const RankInfo& info)
      : info_(info), failure_(info.rank, info.size) {}
  CollectiveTransport(const CollectiveTransport&) = delete;
  CollectiveTransport& operator=(const CollectiveTransport&) = delete;
  virtual ~CollectiveTransport() = default;

  const RankInfo& info() const { return info_; }
  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  FailureState& failure() { return failure_; }
  /// Callable from any thread.
  std::chrono::milliseconds deadline() const { return deadline_; }
  virtual void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

  virtual std::string description() const = 0;

  // Start a collective; it may have completed when the call returns. Throw CommunicationError.
  virtual void start_all_gather(const CollectiveCall& call, void* data, Counts counts,
                                const BufferLease& lease) = 0;
  virtual void start_all_to_all(const CollectiveCall& call, const void* send, Counts send_counts,
                                void* receive, Counts receive_counts, const BufferLease& lease) = 0;
  virtual void start_broadcast(const CollectiveCall& call, void* data, std::int64_t bytes, int root,
                               const BufferLease& lease) = 0;
  virtual void start_barrier(const CollectiveCall& call, const BufferLease& lease) = 0;
  /// Waits for a started collective, in any order of tickets. A ticket that was waited for before
  /// is ignored. Not needed where start_*() blocks.
  virtual void finish(std::uint64_t /*ticket*/) {}

  /// Collective; null for a rank without a color. Throws CommunicationError.
  virtual std::unique_ptr<Communicator> split(const Subset& subset) = 0;
  /// Ends pending collectives here and, if possible, on the other ranks. Called at most once, from
  /// any thread.
  virtual void abort(std::string_view reason) noexcept = 0;

  /// all_gather() of `bytes` per rank between host buffers, blocking; needed for split() where
  /// collectives run in device memory. Throws std::invalid_argument unless overridden.
  virtual void gather_on_host(void* data, std::int64_t bytes);
  /// Arithmetic in the memory of the buffers, of which `data` is one; null: in host memory only.
  virtual std::shared_ptr<Reducer> make_reducer(const void* /*data*/) { return nullptr; }
  virtual std::shared_ptr<void> allocate(std::int64_t /*bytes*/) { return nullptr; }
  virtual void watch(StreamRef /*stream*/) {}

 private:
  const RankInfo info_;
  FailureState failure_;
  std::atomic<std::chrono::milliseconds> deadline_{std::chrono::minutes(10)};
};

}  // namespace shampoo
