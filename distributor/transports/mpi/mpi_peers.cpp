// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi_peers.h"

#include <algorithm>
#include <array>
#include <span>

#include "distributor/rank_list.h"

namespace shampoo {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int notice_tag = 1;

}  // namespace

MpiPeers::MpiPeers(MpiHandle duplicate, int rank, int size)
    : comm_(std::move(duplicate)),
      rank_(rank),
      size_(size),
      notices_(static_cast<std::size_t>(size)) {}

MpiPeers::~MpiPeers() {
  try {
    for (const auto& message : sent_)
      if (!mpi_is_usable() || !message->test()) comm_.leak();
  } catch (const CommunicationError&) {
    comm_.leak();
  }
}

MpiPeers::Notice MpiPeers::make_notice(Notice::Kind kind, const CollectiveCall& call,
                                       std::string_view reason) const {
  Notice notice{.kind = kind, .call = CallRecord(rank_, call)};
  reason.copy(notice.reason.data(), notice.reason.size() - 1);
  return notice;
}

std::unique_ptr<MpiCall<MpiPeers::Notice>> MpiPeers::send(const Notice& notice, int to) const {
  return std::make_unique<MpiCall<Notice>>([&](Notice& buffer, MPI_Request* request) {
    buffer = notice;
    check_mpi(MPI_Isend(&buffer, sizeof(Notice), MPI_BYTE, to, notice_tag, comm_.get(), request),
              "MPI_Isend");
  });
}

std::vector<std::unique_ptr<MpiCall<MpiPeers::Notice>>> MpiPeers::send_all(
    const Notice& notice) const {
  std::vector<std::unique_ptr<MpiCall<Notice>>> messages;
  for (int i = 1; i < size_; ++i) messages.push_back(send(notice, (rank_ + i) % size_));
  return messages;
}

void MpiPeers::announce(const CollectiveCall& call) {
  if (size_ == 1) return;
  std::erase_if(sent_, [](const auto& message) { return message->test(); });
  sent_.push_back(send(make_notice(Notice::Kind::waits, call, {}), (rank_ + 1) % size_));
}

void MpiPeers::receive_all() {
  for (;;) {
    int arrived = 0;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, notice_tag, comm_.get(), &arrived, MPI_STATUS_IGNORE),
              "MPI_Iprobe");
    if (!arrived) return;
    Notice notice;
    MPI_Status status;
    check_mpi(MPI_Recv(&notice, sizeof(notice), MPI_BYTE, MPI_ANY_SOURCE, notice_tag, comm_.get(),
                       &status),
              "MPI_Recv");
    if (notice.kind == Notice::Kind::waits)
      previous_ = notice.call;
    else if (notices_[status.MPI_SOURCE].kind == Notice::Kind::none)
      notices_[status.MPI_SOURCE] = notice;
  }
}

std::string MpiPeers::receive(const CollectiveCall& call) {
  receive_all();
  const auto failed = std::ranges::find_if(
      notices_, [](const Notice& notice) { return notice.kind != Notice::Kind::none; });
  if (failed != notices_.end())
    return "rank " + std::to_string(failed - notices_.begin()) + " reported a failure";
  if (previous_.ticket != call.ticket) return {};
  return describe_mismatch(std::array{previous_, CallRecord(rank_, call)});
}

CommunicationError MpiPeers::give_up(const CollectiveCall& call, const std::string& reason,
                                     std::chrono::milliseconds longest) {
  notices_[rank_] = make_notice(Notice::Kind::gave_up, call, reason);
  const auto messages = send_all(notices_[rank_]);
  const auto is_silent = [](const Notice& notice) { return notice.kind == Notice::Kind::none; };
  const Clock::time_point end = Clock::now() + longest;
  for (Backoff backoff; Clock::now() < end; backoff.pause()) {
    receive_all();
    if (std::ranges::none_of(notices_, is_silent)) break;
  }
  for (const auto& message : messages) message->test();
  return judge(reason);
}

CommunicationError MpiPeers::judge(const std::string& reason) const {
  std::vector<int> missing;
  std::vector<CallRecord> calls;
  for (int r = 0; r < size_; ++r) {
    const Notice& notice = notices_[r];
    if (notice.kind == Notice::Kind::aborted)
      return CommunicationError("rank " + std::to_string(r) + " aborted: " + notice.reason.data());
    if (notice.kind == Notice::Kind::none)
      missing.push_back(r);
    else
      calls.push_back(notice.call);
  }
  const std::string mismatch = describe_mismatch(calls);
  if (missing.empty())
    return CommunicationError(mismatch.empty() ? reason + "; all ranks answer" : mismatch);
  const std::string text = reason + "; " + unanswered_text(missing);
  return CommunicationError(text, std::move(missing));
}

void MpiPeers::abort(std::string_view reason) {
  static_cast<void>(send_all(make_notice(Notice::Kind::aborted, {}, reason)));
}

}  // namespace shampoo
