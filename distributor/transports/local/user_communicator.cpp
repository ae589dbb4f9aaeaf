// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/local/user_communicator.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace shampoo {

namespace {

class CallerCommunicator final : public Communicator {
 public:
  explicit CallerCommunicator(Collectives collectives)
      : Communicator(collectives.standing), collectives_(std::move(collectives)) {}

  std::string description() const override { return collectives_.description; }

 private:
  using Counts = std::span<const std::int64_t>;

  void start_all_gather(std::uint64_t, void* everyone, Counts counts,
                        const BufferLease& loan) override {
    guard([&] { collectives_.all_gather(everyone, counts, terms(loan)); });
  }

  void start_all_to_all(std::uint64_t, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& loan) override {
    guard([&] {
      if (collectives_.all_to_all)
        collectives_.all_to_all(send, send_counts, receive, receive_counts, terms(loan));
      else
        gather_all_to_all(static_cast<const char*>(send), send_counts, static_cast<char*>(receive),
                          receive_counts, loan);
    });
  }

  void start_broadcast(std::uint64_t, void* data, std::int64_t bytes, int root,
                       const BufferLease& loan) override {
    guard([&] {
      if (collectives_.broadcast) return collectives_.broadcast(data, bytes, root, terms(loan));
      std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), 0);
      counts[root] = bytes;
      collectives_.all_gather(data, counts, terms(loan));
    });
  }

  void start_barrier(std::uint64_t, const BufferLease& loan) override {
    guard([&] {
      if (collectives_.barrier) return collectives_.barrier(terms(loan));
      std::vector<char> everyone(static_cast<std::size_t>(size()));
      const std::vector<std::int64_t> counts(everyone.size(), 1);
      collectives_.all_gather(everyone.data(), counts, terms(loan));
    });
  }

  void finish(std::uint64_t) override {}

  std::unique_ptr<Communicator> make_split(std::span<const Member> members, int color,
                                           std::uint64_t) override {
    if (!collectives_.split)
      throw std::invalid_argument("split: the caller's collectives have no split");
    std::vector<int> ranks;
    for (const Member& member : members) ranks.push_back(member.rank);
    std::unique_ptr<Communicator> part;
    guard([&] { part = collectives_.split(ranks, color); });
    return part;
  }

  void tear_down(std::string_view reason) noexcept override {
    try {
      if (collectives_.abort) collectives_.abort(reason);
    } catch (...) {  // the others meet their deadline
    }
  }

  /// Every rank gets what everyone sends to everyone, and picks its own.
  void gather_all_to_all(const char* send, Counts send_counts, char* receive, Counts receive_counts,
                         const BufferLease& loan) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::vector<std::int64_t> table = gather_counts(send_counts, receive_counts, loan);
    std::vector<std::int64_t> totals, own_begins;
    std::int64_t all = 0;
    for (std::size_t from = 0; from < ranks; ++from) {
      const auto row = table.begin() + static_cast<std::ptrdiff_t>(2 * from * ranks);
      own_begins.push_back(std::accumulate(row, row + rank(), all));
      totals.push_back(std::accumulate(row, row + size(), std::int64_t{0}));
      all += totals.back();
    }
    std::vector<char> everyone(static_cast<std::size_t>(all));
    const std::int64_t own =
        std::accumulate(totals.begin(), totals.begin() + rank(), std::int64_t{0});
    std::copy_n(send, totals[rank()], everyone.begin() + own);
    collectives_.all_gather(everyone.data(), totals, terms(loan));
    for (std::size_t from = 0; from < ranks; receive += receive_counts[from++])
      std::copy_n(everyone.begin() + own_begins[from], receive_counts[from], receive);
  }

  /// For every rank what it sends to each, then what it expects from each. Throws on all ranks
  /// where two do not fit, before anything travels.
  std::vector<std::int64_t> gather_counts(Counts send_counts, Counts receive_counts,
                                          const BufferLease& loan) {
    const auto ranks = static_cast<std::size_t>(size());
    std::vector<std::int64_t> table(2 * ranks * ranks);
    const auto own = table.begin() + 2 * rank() * static_cast<std::ptrdiff_t>(ranks);
    std::ranges::copy(receive_counts, std::ranges::copy(send_counts, own).out);
    const std::vector<std::int64_t> rows(
        ranks, static_cast<std::int64_t>(2 * ranks * sizeof(std::int64_t)));
    collectives_.all_gather(table.data(), rows, terms(loan));
    for (std::size_t from = 0; from < ranks; ++from)
      for (std::size_t to = 0; to < ranks; ++to) {
        const std::int64_t sent = table[2 * from * ranks + to];
        const std::int64_t expected = table[(2 * to + 1) * ranks + from];
        if (sent != expected)
          throw std::runtime_error("rank " + std::to_string(from) + " sends " +
                                   std::to_string(sent) + " bytes to rank " + std::to_string(to) +
                                   ", which expects " + std::to_string(expected));
      }
    return table;
  }

  CallTerms terms(const BufferLease& loan) const { return {loan.stream, deadline()}; }

  /// What a callback throws is the transport's failure.
  template <typename Call>
  static void guard(const Call& call) {
    try {
      call();
    } catch (const CommunicationError&) {
      throw;
    } catch (const std::exception& error) {
      throw CommunicationError(error.what());
    } catch (...) {
      throw CommunicationError("a callback threw something that is no std::exception");
    }
  }

  const Collectives collectives_;
};

}  // namespace

std::unique_ptr<Communicator> caller_communicator(Collectives collectives) {
  const RankInfo& standing = collectives.standing;
  if (standing.size < 1)
    throw std::invalid_argument("standing.size: must be at least 1, got " +
                                std::to_string(standing.size));
  if (standing.rank < 0 || standing.rank >= standing.size)
    throw std::invalid_argument("standing.rank: must be from 0 to " +
                                std::to_string(standing.size - 1) + ", got " +
                                std::to_string(standing.rank));
  if (standing.local_rank < 0 || standing.local_rank >= standing.size)
    throw std::invalid_argument("standing.local_rank: must be from 0 to " +
                                std::to_string(standing.size - 1) + ", got " +
                                std::to_string(standing.local_rank));
  if (!collectives.all_gather) throw std::invalid_argument("all_gather: must be set");
  const bool host = standing.memory == MemoryKind::host;
  if (!host && !collectives.all_to_all)
    throw std::invalid_argument("all_to_all: must be set unless standing.memory is host memory");
  if (!host && !collectives.barrier)
    throw std::invalid_argument("barrier: must be set unless standing.memory is host memory");
  return std::make_unique<CallerCommunicator>(std::move(collectives));
}

}  // namespace shampoo
