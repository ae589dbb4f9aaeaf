// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>

#include "shampoo/distributor/transports/nccl/nccl.h"

namespace shampoo {

/// See nccl_communicator_of().
inline std::unique_ptr<Communicator> nccl_communicator(ncclComm_t borrowed,
                                                       const BorrowedNcclOptions& options = {}) {
  return nccl_communicator_of(&borrowed, options);
}

inline StreamRef stream_ref(cudaStream_t stream) { return {stream}; }

}  // namespace shampoo
