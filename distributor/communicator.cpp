// SPDX-License-Identifier: Apache-2.0
#include "distributor/communicator.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace shampoo {

void Completion::wait() { communicator_->wait(ticket_, operation_); }

template <typename Body>
Completion Communicator::start(std::string_view operation, const Body& body) {
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
    finish(ticket);
  } catch (const CommunicationError& error) {
    fail(ticket, operation, error);
  }
}

void Communicator::check() const {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_.empty()) throw CommunicationError(failure_, missing_);
}

void Communicator::report(std::uint64_t ticket, std::string_view operation,
                          const CommunicationError& cause) {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_.empty()) return;
  failure_ = "rank " + std::to_string(rank()) + " of " + std::to_string(size()) + ": " +
             std::string(operation) + " (collective " + std::to_string(ticket) +
             "): " + cause.what();
  missing_ = cause.missing_ranks();
}

void Communicator::fail(std::uint64_t ticket, std::string_view operation,
                        const CommunicationError& cause) {
  report(ticket, operation, cause);
  check();
  throw cause;
}

std::string Communicator::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void Communicator::abort(std::string_view reason) noexcept {
  try {
    {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_.empty()) return;
      failure_ = "rank " + std::to_string(rank()) + " of " + std::to_string(size()) +
                 " aborted: " + std::string(reason);
    }
    tear_down(reason);
  } catch (...) {  // no memory for a message: the others meet their deadline
  }
}

void Communicator::set_deadline(std::chrono::milliseconds deadline) {
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);
  if (deadline.count() < 1 || deadline > longest)
    throw std::invalid_argument("deadline: must be from 1 ms to a year, got " +
                                std::to_string(deadline.count()) + " ms");
  deadline_ = deadline;
  deadline_changed();
}

void Communicator::check_counts(std::string_view operation,
                                std::span<const std::int64_t> counts) const {
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

Completion Communicator::all_gather(void* everyone, std::span<const std::int64_t> counts,
                                    const BufferLease& loan) {
  check_counts("all_gather", counts);
  return start("all_gather",
               [&](std::uint64_t ticket) { start_all_gather(ticket, everyone, counts, loan); });
}

Completion Communicator::all_to_all(const void* send, std::span<const std::int64_t> send_counts,
                                    void* receive, std::span<const std::int64_t> receive_counts,
                                    const BufferLease& loan) {
  check_counts("all_to_all", send_counts);
  check_counts("all_to_all", receive_counts);
  if (send_counts[rank()] != receive_counts[rank()])
    throw std::invalid_argument("all_to_all: a rank must receive from itself what it sends");
  return start("all_to_all", [&](std::uint64_t ticket) {
    start_all_to_all(ticket, send, send_counts, receive, receive_counts, loan);
  });
}

Completion Communicator::broadcast(void* data, std::int64_t bytes, int root,
                                   const BufferLease& loan) {
  if (root < 0 || root >= size())
    throw std::invalid_argument("broadcast: root must be from 0 to " + std::to_string(size() - 1) +
                                ", got " + std::to_string(root));
  if (bytes < 0)
    throw std::invalid_argument("broadcast: bytes must be at least 0, got " +
                                std::to_string(bytes));
  return start("broadcast",
               [&](std::uint64_t ticket) { start_broadcast(ticket, data, bytes, root, loan); });
}

Completion Communicator::barrier(const BufferLease& loan) {
  return start("barrier", [&](std::uint64_t ticket) { start_barrier(ticket, loan); });
}

void Communicator::gather_on_host(std::shared_ptr<void> everyone, std::int64_t bytes) {
  if (size() == 1) return;
  check_host("split");
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), bytes);
  all_gather(everyone.get(), counts, {.owner = everyone}).wait();
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  struct Choice {
    int color, key, local_rank;
  };
  const auto all = std::make_shared<std::vector<Choice>>(static_cast<std::size_t>(size()));
  std::vector<Choice>& choices = *all;
  choices[rank()] = {color, key, local_rank()};
  gather_on_host({all, choices.data()}, sizeof(Choice));

  std::vector<Member> members;
  for (int r = 0; r < size(); ++r)
    if (color >= 0 && choices[r].color == color) members.push_back({r, choices[r].local_rank});
  std::ranges::stable_sort(members, {}, [&](const Member& m) { return choices[m.rank].key; });
  const std::uint64_t index = splits_++;
  try {
    auto part = make_split(members, color, index);
    if (part) part->set_deadline(deadline_);
    return part;
  } catch (const CommunicationError& error) {
    fail(tickets_, "split", error);
  }
}

}  // namespace shampoo
