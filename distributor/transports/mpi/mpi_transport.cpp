// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi_transport.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <list>
#include <vector>

#include "distributor/rank_list.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/transports/mpi/mpi_handle.h"
#include "distributor/transports/mpi/mpi_operation.h"
#include "distributor/transports/mpi/mpi_peers.h"
#include "distributor/transports/mpi/mpi_session.h"
#include "distributor/transports/transport.h"

namespace shampoo {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds least_wait{1000};
/// Communicators that are kept for calls to come.
constexpr std::size_t most_comms = 16;

/// MPI's nonblocking collectives, polled until the deadline.
///
/// What MPI does when ranks call different collectives, or with different sizes, is undefined. So
/// each signature (see CollectiveCall) has an MPI communicator of its own, made when it is first
/// used, together with a comparison of the signatures; ranks in different calls then wait, and
/// MpiPeers finds out.
class MpiTransport final : public CollectiveTransport {
 public:
  MpiTransport(const RankInfo& info, MpiHandle duplicate, MpiHandle peers, milliseconds deadline,
               MakeCommunicator make, std::int64_t max_count)
      : CollectiveTransport(info),
        base_(std::move(duplicate)),
        peers_(std::move(peers), info.rank, info.size),
        make_(make),
        max_count_(max_count) {
    CollectiveTransport::set_deadline(deadline);
  }

  ~MpiTransport() override {
    bool pending = !failure().message().empty();
    for (std::unique_ptr<MpiOperation>& operation : operations_)
      if (operation->pending()) {
        // MPI may still write into its buffers: leak it.
        static_cast<void>(operation.release());
        pending = true;
      }
    if (!pending) return;
    abandon_mpi();
    base_.leak();
    peers_.leak();
    for (Signed& comm : comms_) comm.handle.leak();
  }

  std::string description() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    std::string name(text.data());
    name.resize(std::min(name.size(), name.find_first_of(",\n")));
    std::ranges::replace(name, '\t', ' ');
    return "MPI: " + name;
  }

  void start_all_gather(const CollectiveCall& call, void* data, Counts counts,
                        const BufferLease& lease) override {
    begin(call, lease, [&](MpiOperation& o) { o.all_gather(data, counts); });
  }

  void start_all_to_all(const CollectiveCall& call, const void* send, Counts send_counts,
                        void* receive, Counts receive_counts, const BufferLease& lease) override {
    begin(call, lease,
          [&](MpiOperation& o) { o.all_to_all(send, send_counts, receive, receive_counts); });
  }

  void start_broadcast(const CollectiveCall& call, void* data, std::int64_t bytes, int root,
                       const BufferLease& lease) override {
    begin(call, lease, [&](MpiOperation& o) { o.broadcast(data, bytes, root); });
  }

  void start_barrier(const CollectiveCall& call, const BufferLease& lease) override {
    begin(call, lease, [](MpiOperation& o) { o.barrier(); });
  }

  void finish(std::uint64_t ticket) override {
    const auto found = std::ranges::find(
        operations_, ticket, [](const auto& operation) { return operation->call.ticket; });
    if (found == operations_.end()) return;  // was waited for before
    MpiOperation& operation = **found;
    complete(operation.call, operation.start, [&] { return operation.test(); });
    operation.release();
  }

  std::unique_ptr<Communicator> split(const Subset& subset) override {
    const int color = subset.members.empty() ? MPI_UNDEFINED : subset.color;
    MpiHandle comm = split_comm(base_.get(), color, subset.rank, subset.end);
    if (subset.members.empty()) return nullptr;
    return make_mpi_communicator(std::move(comm), subset.end, deadline(), make_, max_count_);
  }

  /// Ranks that wait receive the reason. This rank itself stops waiting in complete().
  void abort(std::string_view reason) noexcept override {
    int is_main = 0;
    if (!mpi_is_usable() || size() == 1) return;
    MPI_Is_thread_main(&is_main);
    try {
      if (is_main || mpi_thread_level() == MPI_THREAD_MULTIPLE) peers_.abort(reason);
    } catch (...) {  // the others miss their deadline
    }
  }

 private:
  /// An MPI communicator for the calls of one signature.
  struct Signed {
    std::uint64_t signature;
    MpiHandle handle;
  };

  template <typename Start>
  void begin(const CollectiveCall& call, const BufferLease& lease, const Start& start) {
    const MPI_Comm comm = comm_for(call);
    auto free = std::ranges::find(operations_, std::uint64_t{0},
                                  [](const auto& operation) { return operation->call.ticket; });
    if (free == operations_.end())
      free = operations_.insert(free, std::make_unique<MpiOperation>(rank(), size(), max_count_));
    MpiOperation& operation = **free;
    operation.acquire(comm, call, lease.keep_alive);
    try {
      start(operation);
    } catch (...) {
      // MPI holds nothing of an operation that did not start: end the lease now.
      if (!operation.pending()) operation.release();
      throw;
    }
  }

  /// Blocks if the signature is new.
  MPI_Comm comm_for(const CollectiveCall& call) {
    const auto known = std::ranges::find(comms_, call.signature, &Signed::signature);
    if (known != comms_.end()) {
      comms_.splice(comms_.begin(), comms_, known);
      return known->handle.get();
    }
    const Clock::time_point start = Clock::now();
    auto duplicate = start_duplicate(base_.get());
    complete(call, start, [&] { return duplicate.test(); });
    MpiHandle made = own_comm(duplicate.result());
    using Extremes = std::array<std::uint64_t, 2>;  // of the signatures; the least one is inverted
    MpiCall<Extremes> comparison([&](Extremes& extremes, MPI_Request* request) {
      extremes = {call.signature, ~call.signature};
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, extremes.data(), 2, MPI_UINT64_T, MPI_MAX, made.get(),
                               request),
                "MPI_Iallreduce");
    });
    complete(call, start, [&] { return comparison.test(); });
    if (comparison.result()[0] != ~comparison.result()[1]) {
      made.leak();
      give_up(call, "another rank is in another call");
    }
    if (comms_.size() == most_comms) comms_.pop_back();
    comms_.push_front({call.signature, std::move(made)});
    return comms_.front().handle.get();
  }

  /// Polls until test() holds, which is what lets MPI make progress.
  template <typename Test>
  void complete(const CollectiveCall& call, Clock::time_point start, const Test& test) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point end =
        std::max(start + deadline(), now + std::min(deadline(), least_wait));
    const Clock::time_point patience = now + comparison_patience(deadline());
    bool announced = false;
    for (Backoff backoff; !test_or_give_up(call, test);) {
      if (!backoff.pause()) continue;
      failure().check();  // another thread may have called abort()
      const std::string fault = peers_.receive(call);
      if (!fault.empty()) give_up(call, fault);
      if (Clock::now() > end) give_up(call, "not complete within " + seconds_text(deadline()));
      if (announced || Clock::now() < patience) continue;
      peers_.announce(call);
      announced = true;
    }
    // Messages about earlier waits must not pile up.
    if (call.ticket % 256 == 0) static_cast<void>(peers_.receive(call));
  }

  template <typename Test>
  bool test_or_give_up(const CollectiveCall& call, const Test& test) {
    std::string error;
    try {
      return test();
    } catch (const CommunicationError& thrown) {
      error = thrown.what();
    }
    give_up(call, error);
  }

  [[noreturn]] void give_up(const CollectiveCall& call, const std::string& reason) {
    throw peers_.give_up(call, reason, failure_detection_timeout(deadline()));
  }

  MpiHandle base_;
  MpiPeers peers_;
  MakeCommunicator make_;
  std::int64_t max_count_;
  std::list<Signed> comms_;  ///< the last used first
  std::vector<std::unique_ptr<MpiOperation>> operations_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MpiHandle duplicate, Clock::time_point end,
                                                    milliseconds deadline, MakeCommunicator make,
                                                    std::int64_t max_count) {
  MpiHandle peers = duplicate_comm(duplicate.get(), end);
  const RankInfo info = gather_rank_info(duplicate.get(), end);
  return make(std::make_unique<MpiTransport>(info, std::move(duplicate), std::move(peers), deadline,
                                             make, max_count));
}

}  // namespace shampoo
