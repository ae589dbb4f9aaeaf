// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_communicator.h"

#include <algorithm>
#include <utility>

#include "distributor/transports/nccl/nccl_gather.h"
#include "distributor/transports/nccl/nccl_reducer.h"

namespace shampoo {

int local_rank_in(std::span<const std::string> hosts, int rank) {
  return static_cast<int>(std::count(hosts.begin(), hosts.begin() + rank, hosts[rank]));
}

NcclCommunicator::NcclCommunicator(int rank, NcclSetup setup)
    : Communicator({.rank = rank,
                    .size = static_cast<int>(setup.hosts.size()),
                    .local_rank = local_rank_in(setup.hosts, rank),
                    .memory = Memory::cuda}),
      setup_(std::move(setup)),
      calls_(*setup_.calls) {
  set_deadline(setup_.deadline);
  stream_ = calls_.make_stream();
  byte_ = calls_.allocate(1);
  watch_.emplace(
      *setup_.handle,
      NcclWatch::Duties{
          .lose = [this](std::uint64_t ticket, std::string_view name,
                         const std::string& fault) { lose(ticket, name, fault); },
          .hear = [this] { return setup_.board ? setup_.board->remote_abort_reason() : ""; }},
      deadline());
}

NcclCommunicator::~NcclCommunicator() {
  const bool is_free = watch_->end();
  watch_.reset();
  setup_.handle.reset();
  if (!is_free) return;  // releasing memory would wait for ever
  calls_.release(byte_);
  calls_.destroy_stream(stream_);
}

void NcclCommunicator::deadline_changed() {
  limit_ = deadline();
  if (watch_) watch_->set_deadline(deadline());
}

/// After a failure the state of NCCL is unknown.
template <typename Body>
void NcclCommunicator::guarded(std::uint64_t ticket, std::string_view name, const Body& body) {
  try {
    body();
  } catch (const CommunicationError& error) {
    lose(ticket, name, error.what());
    check();
    throw;
  }
}

/// Whoever else meets a failure meanwhile waits for the verdict on the first. The streams are freed
/// last, so that those who waited for them see the failure.
void NcclCommunicator::lose(std::uint64_t ticket, std::string_view name,
                            const std::string& fault) noexcept {
  const std::lock_guard lock(losing_);
  if (!failure().empty()) {
    setup_.handle->shut_down(fault);
    return;
  }
  report(ticket, name,
         setup_.board ? setup_.board->diagnose(fault, limit_) : CommunicationError(fault));
  setup_.handle->shut_down(fault);
}

void NcclCommunicator::tear_down(std::string_view reason) noexcept {
  if (setup_.board) setup_.board->publish_abort(reason, limit_);
  setup_.handle->shut_down(reason);
  if (setup_.host) setup_.host->abort(reason);
}

template <typename Enqueue>
void NcclCommunicator::begin(std::uint64_t ticket, std::string_view name, const BufferLease& loan,
                             const Enqueue& enqueue) {
  guarded(ticket, name, [&] {
    const bool capturing = calls_.is_capturing(loan.stream.handle);
    NcclOperation& operation = watch_->take(ticket, name, loan, capturing);
    calls_.record(operation.begin, loan.stream.handle);
    calls_.wait(stream_, operation.begin);
    setup_.handle->with([&](Comm comm) {
      NcclGroup group(calls_);
      enqueue(comm);
      group.end();
    });
    setup_.handle->settle(end(), name);
    calls_.record(operation.end, stream_);
    watch_->started(operation, capturing);
  });
}

void NcclCommunicator::start_all_gather(std::uint64_t ticket, void* everyone, Counts counts,
                                        const BufferLease& loan) {
  char* const parts = static_cast<char*>(everyone);
  begin(ticket, "all_gather", loan, [&](Comm comm) {
    if (std::ranges::count(counts, counts[0]) == size()) {
      if (counts[0] > 0)
        calls_.all_gather(parts + rank() * counts[0], parts, counts[0], comm, stream_);
      return;
    }
    std::int64_t from = 0;
    for (int r = 0; r < size(); from += counts[r++])
      if (counts[r] > 0) calls_.broadcast(parts + from, counts[r], r, comm, stream_);
  });
}

void NcclCommunicator::start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts,
                                        void* receive, Counts receive_counts,
                                        const BufferLease& loan) {
  begin(ticket, "all_to_all", loan, [&](Comm comm) {
    const char* from = static_cast<const char*>(send);
    char* to = static_cast<char*>(receive);
    for (int r = 0; r < size(); from += send_counts[r], to += receive_counts[r], ++r) {
      if (send_counts[r] > 0) calls_.send(from, send_counts[r], r, comm, stream_);
      if (receive_counts[r] > 0) calls_.receive(to, receive_counts[r], r, comm, stream_);
    }
  });
}

void NcclCommunicator::start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes,
                                       int root, const BufferLease& loan) {
  begin(ticket, "broadcast", loan, [&](Comm comm) {
    if (bytes > 0) calls_.broadcast(data, bytes, root, comm, stream_);
  });
}

void NcclCommunicator::start_barrier(std::uint64_t ticket, const BufferLease& loan) {
  begin(ticket, "barrier", loan, [&](Comm comm) { calls_.meet(byte_, comm, stream_); });
}

void NcclCommunicator::finish(std::uint64_t ticket) {
  NcclOperation* const operation = watch_->find(ticket);
  if (!operation) return;
  guarded(ticket, operation->name, [&] { calls_.wait(operation->stream, operation->end); });
  watch_->waited_for(*operation);
}

void NcclCommunicator::watch(StreamRef stream) {
  check();
  guarded(0, "replay", [&] {
    NcclOperation& operation = watch_->take(0, "replay", {.stream = stream}, false);
    calls_.record(operation.begin, stream.handle);
    calls_.record(operation.end, stream.handle);
    operation.begun = NcclHandle::Clock::now();
    operation.is_waited_for = true;
    watch_->started(operation, false);
  });
}

std::shared_ptr<const void> NcclCommunicator::prepare(void* memory, std::int64_t bytes) {
  if (bytes == 0 || !failure().empty()) return nullptr;
  void* const registration =
      setup_.handle->with([&](Comm comm) { return calls_.register_memory(comm, memory, bytes); });
  if (!registration) return nullptr;
  return {registration, [this](const void* registered) {
            try {
              setup_.handle->with([&](Comm comm) {
                calls_.deregister_memory(comm, const_cast<void*>(registered));
              });
            } catch (const CommunicationError&) {  // went with the communicator
            }
          }};
}

void NcclCommunicator::gather_on_host(std::shared_ptr<void> everyone, std::int64_t bytes) {
  check();
  guarded(0, "split", [&] {
    gather_through_device(*setup_.handle, stream_, {rank(), size()}, everyone.get(), bytes, end());
  });
}

std::shared_ptr<Reducer> NcclCommunicator::make_summing() {
  return std::make_shared<NcclSumming>(setup_.calls);
}

std::unique_ptr<Communicator> NcclCommunicator::make_split(std::span<const Member> members,
                                                           int color, std::uint64_t index) {
  const auto self = std::ranges::find(members, rank(), &Member::rank);
  const auto place = static_cast<int>(self - members.begin());
  std::unique_ptr<Communicator> part;
  guarded(0, "split", [&] {
    // NCCL writes to it at any time, and for ever where it does not come to an end.
    auto made = std::make_unique<Comm>(nullptr);
    try {
      setup_.handle->with(
          [&](Comm comm) { calls_.split(comm, members.empty() ? -1 : color, place, *made); });
      setup_.handle->settle(end(), "split");
    } catch (...) {
      static_cast<void>(made.release());
      throw;
    }
    if (members.empty()) return;
    if (!*made) throw CommunicationError("NCCL made no part");
    auto handle = std::make_unique<NcclHandle>(setup_.calls, *made);
    try {
      handle->settle(end(), "split");
    } catch (const CommunicationError& error) {
      handle->shut_down(error.what());
      throw;
    }
    NcclSetup setup{.calls = setup_.calls,
                    .handle = std::move(handle),
                    .host = setup_.host,
                    .deadline = deadline()};
    for (const Member& member : members) setup.hosts.push_back(setup_.hosts[member.rank]);
    if (setup_.board)
      setup.board =
          setup_.board->part("/split/" + std::to_string(index) + "/" + std::to_string(color), place,
                             static_cast<int>(members.size()));
    part = std::make_unique<NcclCommunicator>(place, std::move(setup));
  });
  return part;
}

}  // namespace shampoo
