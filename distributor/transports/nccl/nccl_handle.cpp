// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_handle.h"

#include "distributor/error.h"
#include "distributor/system/backoff.h"

namespace shampoo {

using namespace std::chrono_literals;

namespace {

/// For a healthy call, on a busy host.
constexpr auto moment = 2s;
/// Of a communicator that nobody needs any more, for the slowest rank to come to the same.
constexpr auto farewell = 10s;

}  // namespace

NcclHandle::~NcclHandle() {
  if (!owned_ || over_) return;
  try {
    with([&](NcclCalls::Comm comm) { calls_->finalize(comm); });
    settle(Clock::now() + farewell, "finalize");
    calls_->destroy(comm_);
  } catch (const CommunicationError&) {
    calls_->abort(comm_);
  }
}

void NcclHandle::check() const {
  if (over_) throw CommunicationError("NCCL's communicator was shut down");
}

void NcclHandle::look() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && !over_) calls_->is_ready(comm_);
}

void NcclHandle::settle(Clock::time_point end, std::string_view what) {
  for (Backoff backoff;;) {
    if (with([&](NcclCalls::Comm comm) { return calls_->is_ready(comm); })) return;
    if (backoff.pause() && Clock::now() > end)
      throw CommunicationError("NCCL did not finish " + std::string(what) + " in time");
  }
}

void NcclHandle::shut_down(std::string_view reason) noexcept {
  std::unique_lock lock(mutex_, std::try_to_lock);
  const auto end = Clock::now() + moment;
  for (Backoff backoff; !lock.owns_lock() && Clock::now() < end;) {
    backoff.pause();
    if (lock.try_lock()) break;
  }
  if (over_.exchange(true)) return;
  if (owned_) {
    calls_->abort(comm_);
    return;
  }
  try {
    if (shut_down_) shut_down_(reason);
  } catch (...) {  // the caller's own; there is nobody to tell
  }
}

}  // namespace shampoo
