// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>

#include "distributor/transports/nccl/nccl.h"

namespace shampoo {

/// The ranks of the caller's communicator; see nccl_communicator_of().
inline std::unique_ptr<Communicator> nccl_communicator(ncclComm_t borrowed,
                                                       const NcclLoan& loan = {}) {
  return nccl_communicator_of(&borrowed, loan);
}

/// For loans and sums.
inline StreamRef stream_ref(cudaStream_t stream) { return {stream}; }

}  // namespace shampoo
