// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi_transport.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "distributor/rank_list.h"
#include "distributor/system/backoff.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/transports/mpi/mpi_operation.h"
#include "distributor/transports/mpi/mpi_session.h"
#include "distributor/transports/transport.h"

namespace shampoo {

namespace {

using Clock = std::chrono::steady_clock;

/// Owns an MPI communicator.
class MpiHandle {
 public:
  explicit MpiHandle(MPI_Comm comm) : comm_(comm) {}
  ~MpiHandle() {
    if (comm_ != MPI_COMM_NULL && mpi_is_usable()) MPI_Comm_free(&comm_);
  }
  MpiHandle(const MpiHandle&) = delete;
  MpiHandle& operator=(const MpiHandle&) = delete;

  MPI_Comm get() const { return comm_; }
  /// Leaks the communicator, as operations on it are pending.
  void leak() { comm_ = MPI_COMM_NULL; }

 private:
  MPI_Comm comm_;
};

/// Written by MPI until the duplicate exists.
struct Duplication {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
};

RankInfo rank_info_of(MPI_Comm comm) {
  RankInfo info;
  check_mpi(MPI_Comm_rank(comm, &info.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &info.size), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, info.rank, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  const MpiHandle owned(host);
  check_mpi(MPI_Comm_rank(host, &info.local_rank), "MPI_Comm_rank");
  return info;
}

/// A heartbeat being sent.
struct Heartbeat {
  std::uint64_t ticket = 0;
  std::vector<MPI_Request> requests;
};

constexpr int heartbeat_tag = 1;
constexpr std::chrono::milliseconds least_wait{1000};

/// MPI's nonblocking collectives, polled until the deadline.
///
/// MPI does not report that a peer has died or stopped. A rank that gives up therefore probes its
/// peers: it sends a heartbeat to all others, on which they give up and send theirs. Those from
/// which none arrives within the failure timeout are missing.
class MpiTransport final : public CollectiveTransport {
 public:
  MpiTransport(MPI_Comm duplicate, std::chrono::milliseconds deadline, MakeCommunicator make,
               std::int64_t max_count)
      : CollectiveTransport(rank_info_of(duplicate)),
        collectives_(duplicate),
        heartbeats_(duplicate_comm(duplicate, deadline)),
        make_(make),
        max_count_(max_count) {}

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
    collectives_.leak();
    heartbeats_.leak();
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

  void start_all_gather(std::uint64_t ticket, void* data, Counts counts,
                        const BufferLease& lease) override {
    begin(ticket, lease, [&](MpiOperation& o) { o.all_gather(data, counts); });
  }

  void start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& lease) override {
    begin(ticket, lease,
          [&](MpiOperation& o) { o.all_to_all(send, send_counts, receive, receive_counts); });
  }

  void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                       const BufferLease& lease) override {
    begin(ticket, lease, [&](MpiOperation& o) { o.broadcast(data, bytes, root); });
  }

  void start_barrier(std::uint64_t ticket, const BufferLease& lease) override {
    begin(ticket, lease, [](MpiOperation& o) { o.barrier(); });
  }

  void finish(std::uint64_t ticket) override {
    const auto found = std::ranges::find(operations_, ticket,
                                         [](const auto& operation) { return operation->ticket; });
    if (found == operations_.end()) return;  // was waited for before
    MpiOperation& operation = **found;
    // MPI makes progress only while it is polled, which may begin only now.
    const Clock::time_point end =
        std::max(operation.start + deadline(), Clock::now() + std::min(deadline(), least_wait));
    for (Backoff backoff; !operation.test();) {
      if (!backoff.pause()) continue;
      if (Clock::now() > end) give_up(operation, "not complete within " + seconds_text(deadline()));
      if (heartbeat_arrived()) give_up(operation, "another rank reported a failure");
    }
    operation.release();
  }

  std::unique_ptr<Communicator> split(const Subset& subset) override {
    MPI_Comm comm = MPI_COMM_NULL;
    const int color = subset.members.empty() ? MPI_UNDEFINED : subset.color;
    check_mpi(MPI_Comm_split(collectives_.get(), color, subset.rank, &comm), "MPI_Comm_split");
    if (comm == MPI_COMM_NULL) return nullptr;
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return make_mpi_communicator(comm, deadline(), make_, max_count_);
  }

  /// Calls MPI_Abort, as nothing else ends the pending operations of other processes.
  void abort(std::string_view reason) noexcept override {
    std::fprintf(stderr, "shampoo: rank %d of %d aborted: %.*s\n", rank(), size(),
                 static_cast<int>(reason.size()), reason.data());
    MPI_Abort(collectives_.get(), 1);
  }

 private:
  template <typename Start>
  void begin(std::uint64_t ticket, const BufferLease& lease, const Start& start) {
    auto free = std::ranges::find(operations_, std::uint64_t{0},
                                  [](const auto& operation) { return operation->ticket; });
    if (free == operations_.end())
      free =
          operations_.insert(free, std::make_unique<MpiOperation>(collectives_.get(), max_count_));
    MpiOperation& operation = **free;
    operation.ticket = ticket;
    operation.start = Clock::now();
    operation.keep_alive = lease.keep_alive;
    try {
      start(operation);
    } catch (...) {
      // MPI holds nothing of an operation that did not start: end the lease now.
      if (!operation.pending()) operation.release();
      throw;
    }
  }

  [[noreturn]] void give_up(const MpiOperation& operation, const std::string& reason) {
    std::vector<int> missing = probe_peers(operation.ticket);
    if (missing.empty()) throw CommunicationError(reason + "; all ranks answer");
    const std::string text = reason + "; " + rank_list(missing) + " did not answer";
    throw CommunicationError(text, std::move(missing));
  }

  bool heartbeat_arrived() const {
    int arrived = 0;
    check_mpi(
        MPI_Iprobe(MPI_ANY_SOURCE, heartbeat_tag, heartbeats_.get(), &arrived, MPI_STATUS_IGNORE),
        "MPI_Iprobe");
    return arrived;
  }

  /// Returns the ranks that do not respond.
  std::vector<int> probe_peers(std::uint64_t ticket) {
    auto sent = std::make_unique<Heartbeat>(Heartbeat{ticket, {}});
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      MPI_Request& request = sent->requests.emplace_back(MPI_REQUEST_NULL);
      check_mpi(
          MPI_Isend(&sent->ticket, 1, MPI_UINT64_T, r, heartbeat_tag, heartbeats_.get(), &request),
          "MPI_Isend");
    }
    std::vector<bool> responded(static_cast<std::size_t>(size()), false);
    responded[rank()] = true;
    const Clock::time_point end = Clock::now() + failure_detection_timeout(deadline());
    for (Backoff backoff;
         Clock::now() < end && std::ranges::find(responded, false) != responded.end();) {
      if (!heartbeat_arrived()) {
        backoff.pause();
        continue;
      }
      std::uint64_t theirs = 0;
      MPI_Status status;
      check_mpi(MPI_Recv(&theirs, 1, MPI_UINT64_T, MPI_ANY_SOURCE, heartbeat_tag, heartbeats_.get(),
                         &status),
                "MPI_Recv");
      responded[status.MPI_SOURCE] = true;
    }
    int complete = 0;
    check_mpi(MPI_Testall(static_cast<int>(sent->requests.size()), sent->requests.data(), &complete,
                          MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (!complete) static_cast<void>(sent.release());  // MPI may read it later
    std::vector<int> missing;
    for (int r = 0; r < size(); ++r)
      if (!responded[r]) missing.push_back(r);
    return missing;
  }

  MpiHandle collectives_, heartbeats_;
  MakeCommunicator make_;
  std::int64_t max_count_;
  std::vector<std::unique_ptr<MpiOperation>> operations_;
};

}  // namespace

MPI_Comm duplicate_comm(MPI_Comm original, std::chrono::milliseconds deadline) {
  auto duplication = std::make_unique<Duplication>();
  check_mpi(MPI_Comm_idup(original, &duplication->copy, &duplication->request), "MPI_Comm_idup");
  const Clock::time_point end = Clock::now() + deadline;
  for (Backoff backoff;;) {
    int completed = 0;
    check_mpi(MPI_Test(&duplication->request, &completed, MPI_STATUS_IGNORE), "MPI_Test");
    if (completed) break;
    if (!backoff.pause() || Clock::now() < end) continue;
    static_cast<void>(duplication.release());
    abandon_mpi();
    throw CommunicationError("not all MPI ranks arrived within " + seconds_text(deadline));
  }
  check_mpi(MPI_Comm_set_errhandler(duplication->copy, MPI_ERRORS_RETURN),
            "MPI_Comm_set_errhandler");
  return duplication->copy;
}

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm duplicate,
                                                    std::chrono::milliseconds deadline,
                                                    MakeCommunicator make, std::int64_t max_count) {
  return make(std::make_unique<MpiTransport>(duplicate, deadline, make, max_count));
}

}  // namespace shampoo
