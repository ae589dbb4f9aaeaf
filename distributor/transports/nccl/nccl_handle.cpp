// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_handle.h"

#include <algorithm>

#include "distributor/communicator.h"
#include "distributor/system/backoff.h"

namespace shampoo {

using namespace std::chrono_literals;

namespace {

/// For another thread to leave NCCL, on a busy host.
constexpr auto lock_timeout = 2s;
/// For the slowest rank to finalize.
constexpr auto finalize_timeout = 10s;

}  // namespace

NcclHandle::~NcclHandle() {
  if (!is_owned_ || is_shut_down_) return;
  try {
    with([&](NcclApi::Comm comm) { api_->finalize(comm); });
    wait_until_ready(Clock::now() + finalize_timeout, "finalize");
    api_->destroy(comm_);
  } catch (const CommunicationError&) {
    api_->abort(comm_);
  }
}

void NcclHandle::check() const {
  if (is_shut_down_) throw CommunicationError("the NCCL communicator was shut down");
}

void NcclHandle::check_async_error() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && !is_shut_down_) api_->is_ready(comm_);
}

void NcclHandle::wait_until_ready(Clock::time_point end, std::string_view operation) {
  for (Backoff backoff;;) {
    if (with([&](NcclApi::Comm comm) { return api_->is_ready(comm); })) return;
    if (backoff.pause() && Clock::now() > end)
      throw CommunicationError("NCCL did not finish " + std::string(operation) + " in time");
  }
}

void NcclHandle::shut_down(std::string_view reason) noexcept {
  std::unique_lock lock(mutex_, std::try_to_lock);
  const auto end = Clock::now() + lock_timeout;
  for (Backoff backoff; !lock.owns_lock() && Clock::now() < end;) {
    backoff.pause();
    if (lock.try_lock()) break;
  }
  if (is_shut_down_.exchange(true)) return;
  if (is_owned_) {
    api_->abort(comm_);
    return;
  }
  try {
    if (shut_down_) shut_down_(reason);
  } catch (...) {  // an exception of the user's callback has no receiver
  }
}

NcclGroup::~NcclGroup() {
  if (!is_open_) return;
  try {
    api_.end_group();
  } catch (const CommunicationError&) {  // the first error is propagating
  }
}

void gather_through_device(NcclHandle& handle, NcclApi::Stream stream,
                           const NcclApi::Position& position, void* data, std::int64_t bytes,
                           NcclHandle::Clock::time_point end) {
  NcclApi& api = handle.api();
  const auto all = static_cast<std::size_t>(position.size * bytes);
  const auto release = [&](void* memory) { api.release(memory); };
  const auto destroy = [&](void* event) { api.destroy_event(event); };
  const std::unique_ptr<void, decltype(destroy)> done(api.make_event(), destroy);
  std::unique_ptr<void, decltype(release)> memory(api.allocate(all), release);
  // Leaked after a missed deadline, as the device may still access it.
  auto received = std::make_unique<char[]>(all);
  char* const device = static_cast<char*>(memory.get());
  const std::int64_t own = position.rank * bytes;
  std::copy_n(static_cast<const char*>(data) + own, bytes, received.get() + own);
  api.copy(device + own, received.get() + own, bytes, stream);
  handle.with(
      [&](NcclApi::Comm comm) { api.all_gather(device + own, device, bytes, comm, stream); });
  // A copy to pageable memory blocks, so it is queued only after the stream is known to be idle.
  const auto wait = [&] {
    api.record(done.get(), stream);
    for (Backoff backoff; !api.is_done(done.get());) {
      if (!backoff.pause()) continue;
      handle.check_async_error();
      if (NcclHandle::Clock::now() > end) throw CommunicationError("not all ranks arrived in time");
    }
  };
  try {
    handle.wait_until_ready(end, "all_gather");
    wait();
    api.copy(received.get(), device, static_cast<std::int64_t>(all), stream);
    wait();
  } catch (...) {
    static_cast<void>(received.release());
    static_cast<void>(memory.release());
    throw;
  }
  std::copy_n(received.get(), all, static_cast<char*>(data));
}

}  // namespace shampoo
