// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/rendezvous/failure_registry.h"
#include "distributor/transports/nccl/nccl_api.h"
#include "distributor/transports/nccl/nccl_handle.h"

namespace shampoo {

/// Resources of one NCCL communicator.
struct NcclResources {
  std::shared_ptr<NcclApi> api = {};
  std::unique_ptr<NcclHandle> handle = {};
  std::vector<std::string> hosts = {};  ///< hosts by rank
  std::optional<FailureRegistry> registry = {};
  std::shared_ptr<Communicator> host = {};  ///< aborted with this communicator; may be null
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

/// A communicator over a connected NCCL communicator. Does not block.
std::unique_ptr<Communicator> make_nccl_communicator(int rank, NcclResources resources);

}  // namespace shampoo
