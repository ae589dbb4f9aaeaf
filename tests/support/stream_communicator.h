// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stdexcept>
#include <vector>

#include "distributor/communicator.h"
#include "tests/support/emulated_device.h"

namespace shampoo::test {

/// Ranks with an emulated device each, over a communicator between threads, which it borrows.
/// Collectives are queued like other work and meet when it runs; what goes wrong then is known by
/// failure().
class StreamCommunicator final : public Communicator {
 public:
  StreamCommunicator(Communicator& ranks, EmulatedDevice& device)
      : Communicator({.rank = ranks.rank(),
                      .size = ranks.size(),
                      .local_rank = ranks.local_rank(),
                      .memory = MemoryKind::cuda}),
        ranks_(ranks),
        device_(device) {}

  std::string description() const override { return "threads with emulated devices"; }
  /// Of any kind, queued or recorded.
  std::int64_t collectives() const { return collectives_; }

 private:
  using Counts = std::span<const std::int64_t>;

  template <typename Body>
  void queue(const BufferLease& loan, Body body) {
    if (loan.stream.handle != device_.stream())
      throw std::logic_error("a collective out of order with the work on its buffers");
    queue_now(body);
  }
  template <typename Body>
  void queue_now(Body body) {
    ++collectives_;
    device_.call([this, body] {
      try {
        body();
      } catch (const CommunicationError& error) {
        abort(error.what());
      }
    });
  }

  void start_all_gather(std::uint64_t, void* everyone, Counts counts,
                        const BufferLease& loan) override {
    queue(loan, [this, everyone, counts = std::vector<std::int64_t>(counts.begin(), counts.end())] {
      ranks_.all_gather(everyone, counts).wait();
    });
  }
  void start_all_to_all(std::uint64_t, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& loan) override {
    queue(loan,
          [this, send, receive,
           sent = std::vector<std::int64_t>(send_counts.begin(), send_counts.end()),
           received = std::vector<std::int64_t>(receive_counts.begin(), receive_counts.end())] {
            ranks_.all_to_all(send, sent, receive, received).wait();
          });
  }
  void start_broadcast(std::uint64_t, void* data, std::int64_t bytes, int root,
                       const BufferLease& loan) override {
    queue(loan, [=, this] { ranks_.broadcast(data, bytes, root).wait(); });
  }
  void start_barrier(std::uint64_t, const BufferLease&) override {
    queue_now([this] { ranks_.barrier().wait(); });
  }
  void finish(std::uint64_t) override {}  // the stream waits
  std::unique_ptr<Communicator> make_split(std::span<const Member>, int, std::uint64_t) override {
    return nullptr;
  }
  void tear_down(std::string_view reason) noexcept override { ranks_.abort(reason); }

  Communicator& ranks_;
  EmulatedDevice& device_;
  std::int64_t collectives_ = 0;
};

}  // namespace shampoo::test
