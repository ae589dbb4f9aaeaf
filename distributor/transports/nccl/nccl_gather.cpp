// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_gather.h"

#include <algorithm>
#include <memory>

#include "distributor/error.h"
#include "distributor/system/backoff.h"

namespace shampoo {

NcclGroup::~NcclGroup() {
  if (!open_) return;
  try {
    calls_.end_group();
  } catch (const CommunicationError&) {  // the first error is on its way
  }
}

void gather_through_device(NcclHandle& handle, NcclCalls::Stream stream,
                           const NcclCalls::Place& place, void* everyone, std::int64_t bytes,
                           NcclHandle::Clock::time_point end) {
  NcclCalls& calls = handle.calls();
  const auto all = static_cast<std::size_t>(place.size * bytes);
  const auto release = [&](void* memory) { calls.release(memory); };
  const auto destroy = [&](void* event) { calls.destroy_event(event); };
  const std::unique_ptr<void, decltype(destroy)> done(calls.make_event(), destroy);
  std::unique_ptr<void, decltype(release)> memory(calls.allocate(all), release);
  // After a missed deadline the device may still copy: then nothing of this is given back.
  auto received = std::make_unique<char[]>(all);
  char* const device = static_cast<char*>(memory.get());
  const std::int64_t own = place.rank * bytes;
  std::copy_n(static_cast<const char*>(everyone) + own, bytes, received.get() + own);
  calls.copy(device + own, received.get() + own, bytes, stream);
  handle.with(
      [&](NcclCalls::Comm comm) { calls.all_gather(device + own, device, bytes, comm, stream); });
  // Copies to such memory wait, so there is one only when it need not.
  const auto wait = [&] {
    calls.record(done.get(), stream);
    for (Backoff backoff; !calls.is_done(done.get());) {
      if (!backoff.pause()) continue;
      handle.look();
      if (NcclHandle::Clock::now() > end) throw CommunicationError("not all ranks came in time");
    }
  };
  try {
    handle.settle(end, "the gathering");
    wait();
    calls.copy(received.get(), device, static_cast<std::int64_t>(all), stream);
    wait();
  } catch (...) {
    static_cast<void>(received.release());
    static_cast<void>(memory.release());
    throw;
  }
  std::copy_n(received.get(), all, static_cast<char*>(everyone));
}

}  // namespace shampoo
