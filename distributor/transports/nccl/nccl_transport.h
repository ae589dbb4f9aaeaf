// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "distributor/communicator.h"
#include "distributor/rendezvous/failure_registry.h"
#include "distributor/transports/nccl/nccl_api.h"
#include "distributor/transports/nccl/nccl_handle.h"

namespace shampoo {

/// Resources of one NCCL communicator.
struct NcclResources {
  std::shared_ptr<NcclApi> api = {};
  std::unique_ptr<NcclHandle> handle = {};
  std::optional<FailureRegistry> registry = {};
  std::shared_ptr<Communicator> host = {};  ///< aborted with this communicator; may be null
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  std::uint64_t host_id = 0;  ///< equal for ranks of one host
  RankInfo info = {};
};

/// A communicator over a connected NCCL communicator. Does not block.
std::unique_ptr<Communicator> make_nccl_communicator(NcclResources resources);

}  // namespace shampoo
