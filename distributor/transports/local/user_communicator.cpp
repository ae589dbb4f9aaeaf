// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "distributor/call_record.h"
#include "distributor/communicator.h"
#include "distributor/transports/local/user_transport.h"
#include "distributor/transports/nccl/device_reducer.h"
#include "distributor/transports/transport.h"

namespace shampoo {

namespace {

class UserTransport final : public CollectiveTransport {
 public:
  UserTransport(Collectives collectives, MakeReducer make_reducer)
      : CollectiveTransport(collectives.rank_info),
        collectives_(std::move(collectives)),
        make_reducer_(std::move(make_reducer)) {}

  std::string description() const override { return collectives_.description; }

  void start_all_gather(const CollectiveCall& call, void* data, Counts counts,
                        const BufferLease& lease) override {
    guard([&] { collectives_.all_gather(data, counts, context(call, lease)); });
  }

  void start_all_to_all(const CollectiveCall& call, const void* send, Counts send_counts,
                        void* receive, Counts receive_counts, const BufferLease& lease) override {
    guard([&] {
      if (collectives_.all_to_all)
        collectives_.all_to_all(send, send_counts, receive, receive_counts, context(call, lease));
      else
        gather_all_to_all(call, static_cast<const char*>(send), send_counts,
                          static_cast<char*>(receive), receive_counts, lease);
    });
  }

  void start_broadcast(const CollectiveCall& call, void* data, std::int64_t bytes, int root,
                       const BufferLease& lease) override {
    guard([&] {
      if (collectives_.broadcast)
        return collectives_.broadcast(data, bytes, root, context(call, lease));
      std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), 0);
      counts[root] = bytes;
      collectives_.all_gather(data, counts, context(call, lease));
    });
  }

  void start_barrier(const CollectiveCall& call, const BufferLease& lease) override {
    guard([&] {
      if (collectives_.barrier) return collectives_.barrier(context(call, lease));
      std::vector<char> data(static_cast<std::size_t>(size()));
      const std::vector<std::int64_t> counts(data.size(), 1);
      collectives_.all_gather(data.data(), counts, context(call, lease));
    });
  }

  std::shared_ptr<Reducer> make_reducer(const void* data) override {
    return info().memory == MemoryKind::cuda ? make_reducer_(data) : nullptr;
  }

  std::unique_ptr<Communicator> split(const Subset& subset) override {
    if (!collectives_.split)
      throw std::invalid_argument("split: the user-provided collectives have no split");
    std::vector<int> ranks;
    for (const Member& member : subset.members) ranks.push_back(member.rank);
    std::unique_ptr<Communicator> made;
    guard([&] { made = collectives_.split(ranks, subset.color); });
    return made;
  }

  void abort(std::string_view reason) noexcept override {
    try {
      if (collectives_.abort) collectives_.abort(reason);
    } catch (...) {  // the other ranks miss their deadline
    }
  }

 private:
  /// Gathers all messages on every rank, which then picks its own.
  void gather_all_to_all(const CollectiveCall& call, const char* send, Counts send_counts,
                         char* receive, Counts receive_counts, const BufferLease& lease) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::vector<std::int64_t> table = gather_counts(call, send_counts, receive_counts, lease);
    std::vector<std::int64_t> totals, own_begins;
    std::int64_t all = 0;
    for (std::size_t from = 0; from < ranks; ++from) {
      const auto row = table.begin() + static_cast<std::ptrdiff_t>(2 * from * ranks);
      own_begins.push_back(std::accumulate(row, row + rank(), all));
      totals.push_back(std::accumulate(row, row + size(), std::int64_t{0}));
      all += totals.back();
    }
    std::vector<char> gathered(static_cast<std::size_t>(all));
    const std::int64_t own =
        std::accumulate(totals.begin(), totals.begin() + rank(), std::int64_t{0});
    std::copy_n(send, totals[rank()], gathered.begin() + own);
    collectives_.all_gather(gathered.data(), totals, context(call, lease));
    for (std::size_t from = 0; from < ranks; receive += receive_counts[from++])
      std::copy_n(gathered.begin() + own_begins[from], receive_counts[from], receive);
  }

  /// For every rank its send counts, then its receive counts. Throws on all ranks if two ranks
  /// disagree, before any data is sent.
  std::vector<std::int64_t> gather_counts(const CollectiveCall& call, Counts send_counts,
                                          Counts receive_counts, const BufferLease& lease) {
    const auto ranks = static_cast<std::size_t>(size());
    std::vector<std::int64_t> table(2 * ranks * ranks);
    const auto own = table.begin() + 2 * rank() * static_cast<std::ptrdiff_t>(ranks);
    std::ranges::copy(receive_counts, std::ranges::copy(send_counts, own).out);
    const std::vector<std::int64_t> rows(
        ranks, static_cast<std::int64_t>(2 * ranks * sizeof(std::int64_t)));
    collectives_.all_gather(table.data(), rows, context(call, lease));
    for (std::size_t from = 0; from < ranks; ++from)
      for (std::size_t to = 0; to < ranks; ++to) {
        const std::int64_t sent = table[2 * from * ranks + to];
        const std::int64_t expected = table[(2 * to + 1) * ranks + from];
        if (sent != expected)
          throw std::runtime_error(
              describe_counts(static_cast<int>(from), sent, static_cast<int>(to), expected));
      }
    return table;
  }

  CallContext context(const CollectiveCall& call, const BufferLease& lease) const {
    return {lease.stream, deadline(), call};
  }

  /// Converts exceptions of a callback.
  template <typename Call>
  static void guard(const Call& call) {
    try {
      call();
    } catch (const CommunicationError&) {
      throw;
    } catch (const std::exception& error) {
      throw CommunicationError(error.what());
    } catch (...) {
      throw CommunicationError("a callback threw an object that is not a std::exception");
    }
  }

  const Collectives collectives_;
  const MakeReducer make_reducer_;
};

}  // namespace

std::unique_ptr<Communicator> user_communicator(Collectives collectives) {
  return user_communicator(std::move(collectives), make_device_reducer);
}

std::unique_ptr<Communicator> user_communicator(Collectives collectives, MakeReducer make_reducer) {
  validate_rank_info(collectives.rank_info, "rank_info.");
  const bool is_host = collectives.rank_info.memory == MemoryKind::host;
  if (!collectives.all_gather) throw std::invalid_argument("all_gather: must be set");
  if (!is_host && !collectives.all_to_all)
    throw std::invalid_argument("all_to_all: must be set unless rank_info.memory is host memory");
  if (!is_host && !collectives.barrier)
    throw std::invalid_argument("barrier: must be set unless rank_info.memory is host memory");
  return std::make_unique<Communicator>(
      std::make_unique<UserTransport>(std::move(collectives), std::move(make_reducer)));
}

}  // namespace shampoo
