// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "distributor/transports/transport.h"
#include "tests/support/device/emulated_device.h"

namespace shampoo::test {

/// Ranks with an emulated device each, over a borrowed communicator between threads. Collectives
/// are queued on the device's stream and run when it reaches them; their errors show in failure().
class StreamTransport final : public CollectiveTransport {
 public:
  StreamTransport(Communicator& ranks, EmulatedDevice& device, std::int64_t& collectives)
      : CollectiveTransport({.rank = ranks.rank(),
                             .size = ranks.size(),
                             .local_rank = ranks.local_rank(),
                             .memory = MemoryKind::cuda}),
        ranks_(ranks),
        device_(device),
        collectives_(collectives) {}

  std::string description() const override { return "threads with emulated devices"; }

  void start_all_gather(const CollectiveCall&, void* data, Counts counts,
                        const BufferLease& lease) override {
    queue(lease, [this, data, counts = copy(counts)] { ranks_.all_gather(data, counts).wait(); });
  }
  void start_all_to_all(const CollectiveCall&, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& lease) override {
    queue(lease, [this, send, receive, sent = copy(send_counts), received = copy(receive_counts)] {
      ranks_.all_to_all(send, sent, receive, received).wait();
    });
  }
  void start_broadcast(const CollectiveCall&, void* data, std::int64_t bytes, int root,
                       const BufferLease& lease) override {
    queue(lease, [=, this] { ranks_.broadcast(data, bytes, root).wait(); });
  }
  void start_barrier(const CollectiveCall&, const BufferLease&) override {
    queue_now([this] { ranks_.barrier().wait(); });
  }
  std::unique_ptr<Communicator> split(const Subset&) override { return nullptr; }
  void abort(std::string_view reason) noexcept override { ranks_.abort(reason); }

 private:
  static std::vector<std::int64_t> copy(Counts counts) { return {counts.begin(), counts.end()}; }

  template <typename Body>
  void queue(const BufferLease& lease, Body body) {
    if (lease.stream.handle != device_.stream())
      throw std::logic_error("a collective is not ordered with the work on its buffers");
    queue_now(body);
  }
  template <typename Body>
  void queue_now(Body body) {
    ++collectives_;
    device_.call([this, body] {
      try {
        body();
      } catch (const CommunicationError& error) {
        if (failure().report_abort(error.what())) abort(error.what());
      }
    });
  }

  Communicator& ranks_;
  EmulatedDevice& device_;
  std::int64_t& collectives_;
};

class StreamCommunicator final : public Communicator {
 public:
  StreamCommunicator(Communicator& ranks, EmulatedDevice& device)
      : StreamCommunicator(ranks, device, std::make_unique<std::int64_t>(0)) {}

  /// Collectives of any kind, queued or captured.
  std::int64_t collectives() const { return *collectives_; }

 private:
  StreamCommunicator(Communicator& ranks, EmulatedDevice& device,
                     std::unique_ptr<std::int64_t> collectives)
      : Communicator(std::make_unique<StreamTransport>(ranks, device, *collectives)),
        collectives_(std::move(collectives)) {}

  std::unique_ptr<std::int64_t> collectives_;
};

}  // namespace shampoo::test
