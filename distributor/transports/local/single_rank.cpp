// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <stdexcept>

#include "distributor/communicator.h"

namespace shampoo {

namespace {

class OneRank final : public Communicator {
 public:
  explicit OneRank(MemoryKind memory) : Communicator({.memory = memory}) {}

  std::string description() const override { return "one rank"; }

 private:
  void start_all_gather(std::uint64_t, void*, std::span<const std::int64_t>,
                        const BufferLease&) override {}
  void start_all_to_all(std::uint64_t, const void* send, std::span<const std::int64_t> counts,
                        void* receive, std::span<const std::int64_t>, const BufferLease&) override {
    if (memory() != MemoryKind::host)
      throw std::invalid_argument(
          "all_to_all: one_rank() copies in host memory only, an nccl_communicator() in CUDA's");
    if (counts[0] > 0) std::memcpy(receive, send, static_cast<std::size_t>(counts[0]));
  }
  void start_broadcast(std::uint64_t, void*, std::int64_t, int, const BufferLease&) override {}
  void start_barrier(std::uint64_t, const BufferLease&) override {}
  void finish(std::uint64_t) override {}
  std::unique_ptr<Communicator> make_split(std::span<const Member> members, int,
                                           std::uint64_t) override {
    return members.empty() ? nullptr : one_rank(memory());
  }
  void tear_down(std::string_view) noexcept override {}
};

}  // namespace

std::unique_ptr<Communicator> one_rank(MemoryKind memory) {
  return std::make_unique<OneRank>(memory);
}

}  // namespace shampoo
