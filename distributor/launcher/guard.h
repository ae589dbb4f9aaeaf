// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

namespace shampoo::launcher {

/// Runs `agent` in a child process and passes `signals` on to it. Returns the agent's exit code, or
/// 128 + the signal that ended it. Must be called before this process has threads.
///
/// Each of the two cleans up after the other, so that a SIGKILL of either leaves nothing behind.
/// The agent gets a descriptor that becomes readable when this process is gone, and must then stop
/// its workers. When the agent is gone, this process adopts all that was below it and kills it, but
/// none of the children that it had before.
/// The kernel kills the workers, but not their children, when both are killed at the same time.
int run_guarded(std::span<const int> signals, const std::function<int(int guard_gone)>& agent);

}  // namespace shampoo::launcher
