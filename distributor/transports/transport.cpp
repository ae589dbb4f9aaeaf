// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/transport.h"

#include <stdexcept>

namespace shampoo {

void validate_deadline(std::chrono::milliseconds deadline) {
  if (deadline.count() < 1 || deadline > longest_deadline)
    throw std::invalid_argument("deadline: must be from 1 ms to one year, got " +
                                std::to_string(deadline.count()) + " ms");
}

void validate_rank_info(const RankInfo& info, const std::string& prefix) {
  const auto below_size = [&](const char* field, int value) {
    if (value < 0 || value >= info.size)
      throw std::invalid_argument(prefix + field + ": must be from 0 to " +
                                  std::to_string(info.size - 1) + ", got " + std::to_string(value));
  };
  if (info.size < 1)
    throw std::invalid_argument(prefix + "size: must be at least 1, got " +
                                std::to_string(info.size));
  below_size("rank", info.rank);
  below_size("local_rank", info.local_rank);
}

std::string FailureState::prefix() const {
  return "rank " + std::to_string(rank_) + " of " + std::to_string(size_);
}

void FailureState::report(const CollectiveCall& call, const CommunicationError& cause) {
  const std::lock_guard lock(mutex_);
  if (!message_.empty()) return;
  CollectiveCall named = call;
  named.bytes = 0;
  message_ = prefix() + ": " + named.text() + ": " + cause.what();
  missing_ = cause.missing_ranks();
}

bool FailureState::report_abort(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (!message_.empty()) return false;
  message_ = prefix() + " aborted: " + std::string(reason);
  return true;
}

std::string FailureState::message() const {
  const std::lock_guard lock(mutex_);
  return message_;
}

void FailureState::check() const {
  const std::lock_guard lock(mutex_);
  if (!message_.empty()) throw CommunicationError(message_, missing_);
}

void CollectiveTransport::gather_on_host(void*, std::int64_t) {
  throw std::invalid_argument("split: this communicator supports it in host memory only");
}

}  // namespace shampoo
