// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distributor/communicator.h"

namespace shampoo::test {

/// Hands every call on to another communicator, which it borrows, and counts collectives.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& communicator) : communicator_(communicator) {}

  /// Since construction.
  std::int64_t collectives() const { return collectives_; }
  /// Bytes that came from other ranks in all_gather, since construction.
  std::int64_t gathered_bytes() const { return gathered_bytes_; }

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  int local_rank() const override { return communicator_.local_rank(); }
  Memory memory() const override { return communicator_.memory(); }
  Completion all_gather(void* everyone, std::span<const std::int64_t> counts,
                        StreamRef stream) override {
    for (int from = 0; from < size(); ++from)
      if (from != rank()) gathered_bytes_ += counts[from];
    return collective().all_gather(everyone, counts, stream);
  }
  Completion reduce_scatter(const void* all, void* mine, std::span<const std::int64_t> counts,
                            Reduction reduction, StreamRef stream) override {
    return collective().reduce_scatter(all, mine, counts, reduction, stream);
  }
  Completion all_reduce(void* elements, std::int64_t count, Reduction reduction,
                        StreamRef stream) override {
    return collective().all_reduce(elements, count, reduction, stream);
  }
  Completion all_to_all(const void* from, std::span<const std::int64_t> sent, void* to,
                        std::span<const std::int64_t> received, StreamRef stream) override {
    return collective().all_to_all(from, sent, to, received, stream);
  }
  Completion broadcast(void* bytes, std::int64_t count, int root, StreamRef stream) override {
    return collective().broadcast(bytes, count, root, stream);
  }
  Completion barrier(StreamRef stream) override { return collective().barrier(stream); }
  std::unique_ptr<Communicator> split(int color) override { return collective().split(color); }
  void set_deadline(std::chrono::milliseconds deadline) override {
    communicator_.set_deadline(deadline);
  }
  void abort() noexcept override { communicator_.abort(); }
  void wait(std::uint64_t ticket) override { communicator_.wait(ticket); }

 private:
  Communicator& collective() {
    ++collectives_;
    return communicator_;
  }

  Communicator& communicator_;
  std::int64_t collectives_ = 0;
  std::int64_t gathered_bytes_ = 0;
};

}  // namespace shampoo::test
