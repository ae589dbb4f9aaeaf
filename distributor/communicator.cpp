// SPDX-License-Identifier: Apache-2.0
#include "distributor/communicator.h"

#include <algorithm>
#include <stdexcept>

#include "distributor/reduction.h"
#include "distributor/transports/transport.h"

namespace shampoo {

void CollectiveHandle::wait() { communicator_->wait(ticket_, operation_); }

Communicator::Communicator(std::unique_ptr<CollectiveTransport> transport)
    : transport_(std::move(transport)), info_(transport_->info()) {}

Communicator::~Communicator() = default;

template <typename Body>
CollectiveHandle Communicator::start(std::string_view operation, const Body& body) {
  check();
  const std::uint64_t ticket = ++tickets_;
  try {
    body(ticket);
  } catch (const CommunicationError& error) {
    fail(ticket, operation, error);
  }
  return {*this, ticket, operation};
}

void Communicator::wait(std::uint64_t ticket, std::string_view operation) {
  check();
  try {
    transport_->finish(ticket);
  } catch (const CommunicationError& error) {
    fail(ticket, operation, error);
  }
}

void Communicator::fail(std::uint64_t ticket, std::string_view operation,
                        const CommunicationError& cause) {
  transport_->failure().report(ticket, operation, cause);
  check();
  throw cause;
}

std::string Communicator::description() const { return transport_->description(); }
std::string Communicator::failure() const { return transport_->failure().message(); }
void Communicator::check() const { transport_->failure().check(); }
std::chrono::milliseconds Communicator::deadline() const { return transport_->deadline(); }
void Communicator::watch(StreamRef stream) { transport_->watch(stream); }

std::shared_ptr<const void> Communicator::prepare(void* data, std::int64_t bytes) {
  return transport_->prepare(data, bytes);
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
  return start("all_gather", [&](std::uint64_t ticket) {
    transport_->start_all_gather(ticket, data, counts, lease);
  });
}

CollectiveHandle Communicator::all_to_all(const void* send, Counts send_counts, void* receive,
                                          Counts receive_counts, const BufferLease& lease) {
  check_counts("all_to_all", send_counts);
  check_counts("all_to_all", receive_counts);
  if (send_counts[rank()] != receive_counts[rank()])
    throw std::invalid_argument(
        "all_to_all: send_counts and receive_counts must agree for the calling rank itself");
  return start("all_to_all", [&](std::uint64_t ticket) {
    transport_->start_all_to_all(ticket, send, send_counts, receive, receive_counts, lease);
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
  return start("broadcast", [&](std::uint64_t ticket) {
    transport_->start_broadcast(ticket, data, bytes, root, lease);
  });
}

CollectiveHandle Communicator::barrier(const BufferLease& lease) {
  return start("barrier", [&](std::uint64_t ticket) { transport_->start_barrier(ticket, lease); });
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  struct Choice {
    int color, key, local_rank;
  };
  const auto all = std::make_shared<std::vector<Choice>>(static_cast<std::size_t>(size()));
  std::vector<Choice>& choices = *all;
  choices[rank()] = {color, key, local_rank()};
  if (size() > 1 && memory() == MemoryKind::host)
    all_gather(choices.data(), std::vector<std::int64_t>(choices.size(), sizeof(Choice)),
               {.keep_alive = all})
        .wait();
  else if (size() > 1)
    transport_->gather_on_host(choices.data(), sizeof(Choice));

  std::vector<CollectiveTransport::Member> members;
  for (int r = 0; r < size(); ++r)
    if (color >= 0 && choices[r].color == color) members.push_back({r, choices[r].local_rank});
  std::ranges::stable_sort(members, {}, [&](const auto& m) { return choices[m.rank].key; });
  const auto self = std::ranges::find(members, rank(), &CollectiveTransport::Member::rank);
  try {
    auto subset = transport_->split({.members = members,
                                     .color = color,
                                     .rank = static_cast<int>(self - members.begin()),
                                     .index = splits_++});
    if (subset) subset->set_deadline(deadline());
    return subset;
  } catch (const CommunicationError& error) {
    fail(tickets_, "split", error);
  }
}

}  // namespace shampoo
