// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>

#include "distributor/communicator.h"

namespace shampoo::test {

/// Hands every call on to another communicator, which it borrows, and counts collectives.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& communicator)
      : Communicator({.rank = communicator.rank(),
                      .size = communicator.size(),
                      .local_rank = communicator.local_rank(),
                      .memory = communicator.memory()}),
        communicator_(communicator) {}

  /// Of any kind, since construction.
  std::int64_t collectives() const { return collectives_; }
  /// Spent in all_gather, since construction.
  double seconds() const { return seconds_; }
  /// Bytes that came from other ranks in all_gather, since construction.
  std::int64_t gathered_bytes() const { return gathered_bytes_; }

  std::string description() const override { return communicator_.description(); }

 private:
  using Counts = std::span<const std::int64_t>;

  void start_all_gather(std::uint64_t, void* everyone, Counts counts,
                        const BufferLease& loan) override {
    ++collectives_;
    gathered_bytes_ += std::reduce(counts.begin(), counts.end()) - counts[rank()];
    const auto begin = std::chrono::steady_clock::now();
    communicator_.all_gather(everyone, counts, loan).wait();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  void start_all_to_all(std::uint64_t, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& loan) override {
    ++collectives_;
    communicator_.all_to_all(send, send_counts, receive, receive_counts, loan).wait();
  }
  void start_broadcast(std::uint64_t, void* data, std::int64_t bytes, int root,
                       const BufferLease& loan) override {
    ++collectives_;
    communicator_.broadcast(data, bytes, root, loan).wait();
  }
  void start_barrier(std::uint64_t, const BufferLease& loan) override {
    ++collectives_;
    communicator_.barrier(loan).wait();
  }
  void finish(std::uint64_t) override {}
  std::unique_ptr<Communicator> make_split(std::span<const Member> members, int color,
                                           std::uint64_t) override {
    const auto self = std::ranges::find(members, rank(), &Member::rank);
    return communicator_.split(members.empty() ? -1 : color,
                               static_cast<int>(self - members.begin()));
  }
  void tear_down(std::string_view reason) noexcept override { communicator_.abort(reason); }
  void deadline_changed() override { communicator_.set_deadline(deadline()); }

  Communicator& communicator_;
  std::int64_t collectives_ = 0;
  std::int64_t gathered_bytes_ = 0;
  double seconds_ = 0;
};

}  // namespace shampoo::test
