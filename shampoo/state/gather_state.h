// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

/// Gathers the state of all ranks into one state dict with whole elementwise tensors; empty on
/// ranks that do not receive it. Collective: `options` and `gather` must be equal on all ranks. In
/// addition to the result it allocates the largest elementwise tensor and, on the host and in
/// backend memory, the buffer of one all-gather: at most `bytes_of_rank` bytes, >= 1, per rank.
StateDict gather_state(kernels::Backend& backend, Communicator& communicator,
                       StepProtocol& protocol, StateDict own, const StateDictOptions& options,
                       Gather gather, std::int64_t bytes_of_rank);

/// Total bytes of one all-gather.
inline constexpr std::int64_t gather_bytes = std::int64_t{64} << 20;

}  // namespace shampoo
