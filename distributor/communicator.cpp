// SPDX-License-Identifier: Apache-2.0
#include "distributor/communicator.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>

#include "distributor/caller_name.h"
#include "distributor/reduction.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/transports/transport.h"
#include "grouping/hash.h"

namespace shampoo {

namespace {

using std::chrono::milliseconds;

/// Sets the deadline of a transport for the time of a scope.
class ShorterDeadline {
 public:
  ShorterDeadline(CollectiveTransport& transport, milliseconds deadline)
      : transport_(transport), before_(transport.deadline()) {
    transport.set_deadline(deadline);
  }
  ~ShorterDeadline() { transport_.set_deadline(before_); }
  ShorterDeadline(const ShorterDeadline&) = delete;
  ShorterDeadline& operator=(const ShorterDeadline&) = delete;

 private:
  CollectiveTransport& transport_;
  milliseconds before_;
};

std::int64_t sum(Communicator::Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

void CollectiveHandle::wait() { communicator_->wait(call_); }

Communicator::Communicator(std::unique_ptr<CollectiveTransport> transport)
    : transport_(std::move(transport)), info_(transport_->info()) {}

Communicator::~Communicator() = default;

/// `sizes` are those that must be equal on all ranks.
template <typename Body>
CollectiveHandle Communicator::start(std::string_view operation, Counts sizes, std::int64_t bytes,
                                     const Body& body) {
  check();
  grouping::Hash signature;
  signature.add(operation);
  signature.add(reduction_);
  signature.add(std::as_bytes(sizes));
  const CollectiveCall call{.ticket = ++tickets_,
                            .operation = operation,
                            .caller = caller_,
                            .caller_number = caller_number_,
                            .bytes = bytes,
                            .signature = signature.value()};
  try {
    body(call);
  } catch (const CommunicationError& error) {
    fail(call, error);
  }
  return {*this, call};
}

void Communicator::wait(const CollectiveCall& call) {
  check();
  try {
    transport_->finish(call.ticket);
  } catch (const CommunicationError& error) {
    fail(call, error);
  }
}

void Communicator::fail(const CollectiveCall& call, const CommunicationError& cause) {
  transport_->failure().report(call, cause);
  check();
  throw cause;
}

std::string Communicator::description() const { return transport_->description(); }
std::string Communicator::failure() const { return transport_->failure().message(); }
void Communicator::check() const { transport_->failure().check(); }
std::chrono::milliseconds Communicator::deadline() const { return transport_->deadline(); }
void Communicator::watch(StreamRef stream) { transport_->watch(stream); }

std::shared_ptr<void> Communicator::allocate(std::int64_t bytes) {
  return transport_->allocate(bytes);
}

void Communicator::abort(std::string_view reason) noexcept {
  try {
    if (transport_->failure().report_abort(reason)) transport_->abort(reason);
  } catch (...) {  // out of memory for a message: the other ranks miss their deadline
  }
}

void Communicator::set_deadline(std::chrono::milliseconds deadline) {
  validate_deadline(deadline);
  transport_->set_deadline(deadline);
}

void Communicator::check_counts(std::string_view operation, Counts counts) const {
  if (static_cast<int>(counts.size()) != size())
    throw std::invalid_argument(
        std::string(operation) + ": counts must have one entry for each of " +
        std::to_string(size()) + " ranks, got " + std::to_string(counts.size()));
  for (std::size_t r = 0; r < counts.size(); ++r)
    if (counts[r] < 0)
      throw std::invalid_argument(std::string(operation) + ": the count of rank " +
                                  std::to_string(r) + " must be at least 0, got " +
                                  std::to_string(counts[r]));
}

CollectiveHandle Communicator::all_gather(void* data, Counts counts, const BufferLease& lease) {
  check_counts("all_gather", counts);
  return start("all_gather", counts, sum(counts), [&](const CollectiveCall& call) {
    transport_->start_all_gather(call, data, counts, lease);
  });
}

CollectiveHandle Communicator::all_to_all(const void* send, Counts send_counts, void* receive,
                                          Counts receive_counts, const BufferLease& lease) {
  check_counts("all_to_all", send_counts);
  check_counts("all_to_all", receive_counts);
  if (send_counts[rank()] != receive_counts[rank()])
    throw std::invalid_argument(
        "all_to_all: send_counts and receive_counts must agree for the calling rank itself");
  return start("all_to_all", {}, sum(send_counts), [&](const CollectiveCall& call) {
    transport_->start_all_to_all(call, send, send_counts, receive, receive_counts, lease);
  });
}

CollectiveHandle Communicator::broadcast(void* data, std::int64_t bytes, int root,
                                         const BufferLease& lease) {
  if (root < 0 || root >= size())
    throw std::invalid_argument("broadcast: root must be from 0 to " + std::to_string(size() - 1) +
                                ", got " + std::to_string(root));
  if (bytes < 0)
    throw std::invalid_argument("broadcast: bytes must be at least 0, got " +
                                std::to_string(bytes));
  return start("broadcast", std::array{bytes, std::int64_t{root}}, bytes,
               [&](const CollectiveCall& call) {
                 transport_->start_broadcast(call, data, bytes, root, lease);
               });
}

CollectiveHandle Communicator::barrier(const BufferLease& lease) {
  return start("barrier", {}, 0,
               [&](const CollectiveCall& call) { transport_->start_barrier(call, lease); });
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  const CallerName name(*this, "split");
  struct Choice {
    int color, key, local_rank;
  };
  const auto all = std::make_shared<std::vector<Choice>>(static_cast<std::size_t>(size()));
  std::vector<Choice>& choices = *all;
  choices[rank()] = {color, key, local_rank()};
  const milliseconds whole = deadline();
  const auto end = std::chrono::steady_clock::now() + whole;
  if (size() > 1) {
    const ShorterDeadline shorter(*transport_, before_failure_detection(whole));
    if (memory() == MemoryKind::host)
      all_gather(choices.data(), std::vector<std::int64_t>(choices.size(), sizeof(Choice)),
                 {.keep_alive = all})
          .wait();
    else
      transport_->gather_on_host(choices.data(), sizeof(Choice));
  }

  std::vector<CollectiveTransport::Member> members;
  for (int r = 0; r < size(); ++r)
    if (color >= 0 && choices[r].color == color) members.push_back({r, choices[r].local_rank});
  std::ranges::stable_sort(members, {}, [&](const auto& m) { return choices[m.rank].key; });
  const auto self = std::ranges::find(members, rank(), &CollectiveTransport::Member::rank);
  try {
    auto subset = transport_->split({.members = members,
                                     .color = color,
                                     .rank = static_cast<int>(self - members.begin()),
                                     .index = splits_++,
                                     .end = end});
    if (subset) subset->set_deadline(whole);
    return subset;
  } catch (const CommunicationError& error) {
    fail({.ticket = tickets_, .operation = "split"}, error);
  }
}

}  // namespace shampoo
