// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributor/transports/nccl/nccl.h"

namespace shampoo {

/// CUDA's index of the device of a stream; of the current device for the default stream.
/// Throws CommunicationError where CUDA fails.
int cuda_device_of(StreamRef stream);

/// As nccl_communicator() over `ranks`, which the communicator keeps: its abort() aborts them.
std::unique_ptr<Communicator> nccl_communicator_over(std::shared_ptr<Communicator> ranks,
                                                     const NcclOptions& options);

}  // namespace shampoo
