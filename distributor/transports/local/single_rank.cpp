// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <stdexcept>

#include "distributor/transports/transport.h"

namespace shampoo {

namespace {

class SingleRankTransport final : public CollectiveTransport {
 public:
  explicit SingleRankTransport(MemoryKind memory) : CollectiveTransport({.memory = memory}) {}

  std::string description() const override { return "one rank"; }

  void start_all_gather(const CollectiveCall&, void*, Counts, const BufferLease&) override {}
  void start_all_to_all(const CollectiveCall&, const void* send, Counts counts, void* receive,
                        Counts, const BufferLease&) override {
    if (info().memory != MemoryKind::host)
      throw std::invalid_argument(
          "all_to_all: single_rank_communicator() supports it in host memory only; use "
          "nccl_communicator() for CUDA memory");
    if (counts[0] > 0) std::memcpy(receive, send, static_cast<std::size_t>(counts[0]));
  }
  void start_broadcast(const CollectiveCall&, void*, std::int64_t, int,
                       const BufferLease&) override {}
  void start_barrier(const CollectiveCall&, const BufferLease&) override {}
  std::unique_ptr<Communicator> split(const Subset& subset) override {
    return subset.members.empty() ? nullptr : single_rank_communicator(info().memory);
  }
  void abort(std::string_view) noexcept override {}
};

}  // namespace

std::unique_ptr<Communicator> single_rank_communicator(MemoryKind memory) {
  return std::make_unique<Communicator>(std::make_unique<SingleRankTransport>(memory));
}

}  // namespace shampoo
