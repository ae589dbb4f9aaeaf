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
  Memory memory() const override { return communicator_.memory(); }
  Completion all_gather(void* everyone, std::span<const std::int64_t> counts,
                        StreamRef stream) override {
    ++collectives_;
    for (int from = 0; from < size(); ++from)
      if (from != rank()) gathered_bytes_ += counts[from];
    return communicator_.all_gather(everyone, counts, stream);
  }
  void wait(std::uint64_t ticket) override { communicator_.wait(ticket); }

 private:
  Communicator& communicator_;
  std::int64_t collectives_ = 0;
  std::int64_t gathered_bytes_ = 0;
};

}  // namespace shampoo::test
