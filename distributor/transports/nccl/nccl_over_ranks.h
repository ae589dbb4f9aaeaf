// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributor/transports/nccl/nccl.h"

namespace shampoo {

/// As nccl_communicator() over `ranks`, but keeps them and aborts them in its abort().
std::unique_ptr<Communicator> nccl_communicator_over(std::shared_ptr<Communicator> ranks,
                                                     const NcclOptions& options);

}  // namespace shampoo
