// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

/// The parts of all ranks as one state dict whose elementwise tensors are whole; on ranks that get
/// none an empty one. Collective: `options` and `gather` are equal on all ranks. Beside the result
/// it needs memory for the largest elementwise tensor and, in the backend's memory, for what one
/// collective carries: `bytes_of_rank` bytes at most from every rank, >= 1.
StateDict gather_state(Backend& backend, Communicator& communicator, StepProtocol& protocol,
                       StateDict own, const StateDictOptions& options, Gather gather,
                       std::int64_t bytes_of_rank);

/// Bytes that one collective carries from all ranks together.
inline constexpr std::int64_t gather_bytes = std::int64_t{64} << 20;

}  // namespace shampoo
