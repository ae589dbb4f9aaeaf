// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include "distributor/transports/transport.h"

namespace shampoo::test {

struct CollectiveCounts {
  std::int64_t collectives = 0;     ///< of any kind
  double seconds = 0;               ///< in all_gather
  std::int64_t gathered_bytes = 0;  ///< received from other ranks in all_gather
};

/// Forwards every call to a borrowed communicator and counts collectives.
class CountingTransport final : public CollectiveTransport {
 public:
  CountingTransport(Communicator& communicator, CollectiveCounts& counts)
      : CollectiveTransport({.rank = communicator.rank(),
                             .size = communicator.size(),
                             .local_rank = communicator.local_rank(),
                             .memory = communicator.memory()}),
        communicator_(communicator),
        counts_(counts) {}

  std::string description() const override { return communicator_.description(); }
  void set_deadline(std::chrono::milliseconds deadline) override {
    CollectiveTransport::set_deadline(deadline);
    communicator_.set_deadline(deadline);
  }

  void start_all_gather(const CollectiveCall&, void* data, Counts counts,
                        const BufferLease& lease) override {
    ++counts_.collectives;
    counts_.gathered_bytes += std::reduce(counts.begin(), counts.end()) - counts[rank()];
    const auto begin = std::chrono::steady_clock::now();
    communicator_.all_gather(data, counts, lease).wait();
    counts_.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  void start_all_to_all(const CollectiveCall&, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& lease) override {
    ++counts_.collectives;
    communicator_.all_to_all(send, send_counts, receive, receive_counts, lease).wait();
  }
  void start_broadcast(const CollectiveCall&, void* data, std::int64_t bytes, int root,
                       const BufferLease& lease) override {
    ++counts_.collectives;
    communicator_.broadcast(data, bytes, root, lease).wait();
  }
  void start_barrier(const CollectiveCall&, const BufferLease& lease) override {
    ++counts_.collectives;
    communicator_.barrier(lease).wait();
  }
  std::unique_ptr<Communicator> split(const Subset& subset) override {
    return communicator_.split(subset.members.empty() ? -1 : subset.color, subset.rank);
  }
  void abort(std::string_view reason) noexcept override { communicator_.abort(reason); }

 private:
  Communicator& communicator_;
  CollectiveCounts& counts_;
};

/// A communicator that counts the collectives of another one, which it borrows.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& communicator)
      : CountingCommunicator(communicator, std::make_unique<CollectiveCounts>()) {}

  // Since construction.
  std::int64_t collectives() const { return counts_->collectives; }
  double seconds() const { return counts_->seconds; }
  std::int64_t gathered_bytes() const { return counts_->gathered_bytes; }

 private:
  CountingCommunicator(Communicator& communicator, std::unique_ptr<CollectiveCounts> counts)
      : Communicator(std::make_unique<CountingTransport>(communicator, *counts)),
        counts_(std::move(counts)) {}

  std::unique_ptr<CollectiveCounts> counts_;
};

}  // namespace shampoo::test
