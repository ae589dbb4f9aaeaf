// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distributor/transports/nccl/nccl_handle.h"

namespace shampoo {

/// Collectives of one launch. Ends also where one of them throws.
class NcclGroup {
 public:
  explicit NcclGroup(NcclCalls& calls) : calls_(calls) { calls_.begin_group(); }
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void end() {
    open_ = false;
    calls_.end_group();
  }

 private:
  NcclCalls& calls_;
  bool open_ = true;
};

/// `everyone` in host memory gets `bytes` from every rank, whose own part lies in it. Collective.
/// Waits, with memory of the device for the time of the call.
/// Throws CommunicationError where it takes longer than until `end`.
void gather_through_device(NcclHandle& handle, NcclCalls::Stream stream,
                           const NcclCalls::Place& place, void* everyone, std::int64_t bytes,
                           NcclHandle::Clock::time_point end);

}  // namespace shampoo
