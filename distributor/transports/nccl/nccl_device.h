// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributor/transports/nccl/nccl.h"

namespace shampoo {

/// CUDA index of a stream's device; of the current device for the default stream. Throws
/// CommunicationError if CUDA fails.
int cuda_device_of(StreamRef stream);

/// As nccl_communicator() over `ranks`, but keeps them and aborts them in its abort().
std::unique_ptr<Communicator> nccl_communicator_over(std::shared_ptr<Communicator> ranks,
                                                     const NcclOptions& options);

}  // namespace shampoo
