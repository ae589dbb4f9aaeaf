// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi_handle.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "distributor/system/host_name.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo {

namespace {

using Clock = std::chrono::steady_clock;

/// Polls until test() holds. Throws CommunicationError after `end`.
template <typename Test>
void wait_until(Clock::time_point end, const char* failure, const Test& test) {
  for (Backoff backoff; !test();)
    if (backoff.pause() && Clock::now() > end) throw CommunicationError(failure);
}

}  // namespace

MpiHandle own_comm(MPI_Comm comm) {
  MpiHandle handle(comm);
  if (comm != MPI_COMM_NULL)
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return handle;
}

MpiCall<MPI_Comm> start_duplicate(MPI_Comm original) {
  return MpiCall<MPI_Comm>([&](MPI_Comm& copy, MPI_Request* request) {
    check_mpi(MPI_Comm_idup(original, &copy, request), "MPI_Comm_idup");
  });
}

MpiHandle duplicate_comm(MPI_Comm original, Clock::time_point end) {
  auto duplicate = start_duplicate(original);
  wait_until(end, "not all MPI ranks arrived before the deadline",
             [&] { return duplicate.test(); });
  return own_comm(duplicate.result());
}

RankInfo gather_rank_info(MPI_Comm comm, Clock::time_point end) {
  RankInfo info;
  check_mpi(MPI_Comm_rank(comm, &info.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &info.size), "MPI_Comm_size");
  using Hosts = std::vector<std::uint64_t>;  // host_id() of every rank
  MpiCall<Hosts> gather([&](Hosts& hosts, MPI_Request* request) {
    hosts.resize(static_cast<std::size_t>(info.size));
    hosts[info.rank] = host_id();
    check_mpi(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, hosts.data(), 1, MPI_UINT64_T,
                             comm, request),
              "MPI_Iallgather");
  });
  wait_until(end, "not all MPI ranks told their hosts before the deadline",
             [&] { return gather.test(); });
  info.local_rank = local_rank_of(info.rank, gather.result());
  return info;
}

MpiHandle split_comm(MPI_Comm comm, int color, int key, Clock::time_point end) {
  struct Work {
    std::atomic<bool> done{false};
    int code = MPI_SUCCESS;
    MPI_Comm made = MPI_COMM_NULL;
  };
  const auto work = std::make_shared<Work>();
  const auto split = [=] {
    work->code = MPI_Comm_split(comm, color, key, &work->made);
    work->done = true;
  };
  if (mpi_thread_level() == MPI_THREAD_MULTIPLE) {
    std::thread thread = thread_without_signals(split);
    try {
      wait_until(end, "not all MPI ranks split before the deadline",
                 [&] { return work->done.load(); });
    } catch (...) {
      thread.detach();
      abandon_mpi();
      throw;
    }
    thread.join();
  } else {
    split();
  }
  check_mpi(work->code, "MPI_Comm_split");
  return own_comm(work->made);
}

}  // namespace shampoo
