// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "distributor/rank_list.h"
#include "distributor/system/backoff.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/transports/mpi/mpi_call.h"
#include "distributor/transports/mpi/mpi_session.h"

namespace shampoo {

namespace {

using Clock = std::chrono::steady_clock;

/// What MPI writes to until the duplicate is there.
struct Duplication {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
};

RankInfo standing_in(MPI_Comm communicator) {
  RankInfo standing;
  check_mpi(MPI_Comm_rank(communicator, &standing.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(communicator, &standing.size), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, standing.rank, MPI_INFO_NULL, &host),
      "MPI_Comm_split_type");
  const MpiHandle owned(host);
  check_mpi(MPI_Comm_rank(host, &standing.local_rank), "MPI_Comm_rank");
  return standing;
}

/// The message with which a rank calls the roll, and answers.
struct Call {
  std::uint64_t ticket = 0;
  std::vector<MPI_Request> requests;
};

constexpr int roll_tag = 1;
constexpr std::chrono::milliseconds least_wait{1000};

}  // namespace

MPI_Comm duplicate_in_time(MPI_Comm original, std::chrono::milliseconds deadline) {
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
    throw CommunicationError("not all ranks of MPI came within " + seconds_text(deadline));
  }
  check_mpi(MPI_Comm_set_errhandler(duplication->copy, MPI_ERRORS_RETURN),
            "MPI_Comm_set_errhandler");
  return duplication->copy;
}

MpiHandle::~MpiHandle() {
  if (communicator_ != MPI_COMM_NULL && mpi_is_usable()) MPI_Comm_free(&communicator_);
}

MpiCommunicator::MpiCommunicator(MPI_Comm duplicate, std::int64_t most_bytes)
    : Communicator(standing_in(duplicate)),
      collectives_(duplicate),
      roll_(duplicate_in_time(duplicate, deadline())),
      most_bytes_(most_bytes) {}

MpiCommunicator::~MpiCommunicator() {
  bool pending = !failure().empty();
  for (std::unique_ptr<MpiOperation>& operation : operations_)
    if (operation->pending()) {
      // MPI may write into its buffers at any time, so it keeps all of it.
      static_cast<void>(operation.release());
      pending = true;
    }
  if (!pending) return;
  abandon_mpi();
  collectives_.leave();
  roll_.leave();
}

std::string MpiCommunicator::description() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string name(text.data());
  name.resize(std::min(name.size(), name.find_first_of(",\n")));
  std::ranges::replace(name, '\t', ' ');
  return "MPI: " + name;
}

template <typename Start>
void MpiCommunicator::begin(std::uint64_t ticket, const BufferLease& loan, const Start& start) {
  auto free = std::ranges::find(operations_, std::uint64_t{0},
                                [](const auto& operation) { return operation->ticket; });
  if (free == operations_.end())
    free =
        operations_.insert(free, std::make_unique<MpiOperation>(collectives_.get(), most_bytes_));
  MpiOperation& operation = **free;
  operation.ticket = ticket;
  operation.start = Clock::now();
  operation.owner = loan.owner;
  try {
    start(operation);
  } catch (...) {
    // What MPI has not begun it does not keep: the owner may be gone before this communicator.
    if (!operation.pending()) operation.release();
    throw;
  }
}

void MpiCommunicator::start_all_gather(std::uint64_t ticket, void* everyone, Counts counts,
                                       const BufferLease& loan) {
  begin(ticket, loan, [&](MpiOperation& o) { o.all_gather(everyone, counts); });
}

void MpiCommunicator::start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts,
                                       void* receive, Counts receive_counts,
                                       const BufferLease& loan) {
  begin(ticket, loan,
        [&](MpiOperation& o) { o.all_to_all(send, send_counts, receive, receive_counts); });
}

void MpiCommunicator::start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes,
                                      int root, const BufferLease& loan) {
  begin(ticket, loan, [&](MpiOperation& o) { o.broadcast(data, bytes, root); });
}

void MpiCommunicator::start_barrier(std::uint64_t ticket, const BufferLease& loan) {
  begin(ticket, loan, [](MpiOperation& o) { o.barrier(); });
}

void MpiCommunicator::finish(std::uint64_t ticket) {
  const auto found = std::ranges::find(operations_, ticket,
                                       [](const auto& operation) { return operation->ticket; });
  if (found == operations_.end()) return;  // was waited for
  MpiOperation& operation = **found;
  // MPI goes on with it only while somebody looks, which may be now for the first time.
  const Clock::time_point end =
      std::max(operation.start + deadline(), Clock::now() + std::min(deadline(), least_wait));
  for (Backoff backoff; !operation.test();) {
    if (!backoff.pause()) continue;
    if (Clock::now() > end) give_up(operation, "not complete within " + seconds_text(deadline()));
    if (roll_was_called()) give_up(operation, "another rank gave up");
  }
  operation.release();
}

void MpiCommunicator::give_up(const MpiOperation& operation, const std::string& reason) {
  std::vector<int> missing = call_roll(operation.ticket);
  if (missing.empty()) throw CommunicationError(reason + "; all ranks answer");
  const std::string text = reason + "; " + rank_list(missing) + " did not answer";
  throw CommunicationError(text, std::move(missing));
}

bool MpiCommunicator::roll_was_called() const {
  int arrived = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, roll_tag, roll_.get(), &arrived, MPI_STATUS_IGNORE),
            "MPI_Iprobe");
  return arrived;
}

std::vector<int> MpiCommunicator::call_roll(std::uint64_t ticket) {
  auto call = std::make_unique<Call>(Call{ticket, {}});
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    MPI_Request& request = call->requests.emplace_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(&call->ticket, 1, MPI_UINT64_T, r, roll_tag, roll_.get(), &request),
              "MPI_Isend");
  }
  std::vector<bool> heard(static_cast<std::size_t>(size()), false);
  heard[rank()] = true;
  const Clock::time_point end = Clock::now() + failure_detection_timeout(deadline());
  for (Backoff backoff; Clock::now() < end && std::ranges::find(heard, false) != heard.end();) {
    if (!roll_was_called()) {
      backoff.pause();
      continue;
    }
    std::uint64_t theirs = 0;
    MPI_Status status;
    check_mpi(MPI_Recv(&theirs, 1, MPI_UINT64_T, MPI_ANY_SOURCE, roll_tag, roll_.get(), &status),
              "MPI_Recv");
    heard[status.MPI_SOURCE] = true;
  }
  int sent = 0;
  check_mpi(MPI_Testall(static_cast<int>(call->requests.size()), call->requests.data(), &sent,
                        MPI_STATUSES_IGNORE),
            "MPI_Testall");
  if (!sent) static_cast<void>(call.release());  // MPI reads it when the rank wakes up
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r)
    if (!heard[r]) missing.push_back(r);
  return missing;
}

std::unique_ptr<Communicator> MpiCommunicator::make_split(std::span<const Member> members,
                                                          int color, std::uint64_t) {
  const auto self = std::ranges::find(members, rank(), &Member::rank);
  const auto place = static_cast<int>(self - members.begin());
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split(collectives_.get(), members.empty() ? MPI_UNDEFINED : color, place, &part),
      "MPI_Comm_split");
  if (part == MPI_COMM_NULL) return nullptr;
  check_mpi(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return std::make_unique<MpiCommunicator>(part, most_bytes_);
}

/// Nothing else ends what other processes wait for, so the job goes, and the reason with it.
void MpiCommunicator::tear_down(std::string_view reason) noexcept {
  std::fprintf(stderr, "shampoo: rank %d of %d aborted: %.*s\n", rank(), size(),
               static_cast<int>(reason.size()), reason.data());
  MPI_Abort(collectives_.get(), 1);
}

}  // namespace shampoo
