// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "distributor/communicator.h"

namespace shampoo::test {

/// Runs body(communicator) on so many ranks of this machine and returns the exit status of the
/// process. "threads": in this process. "gloo": this process is rank 0 and starts the others with
/// its own arguments; "mpi": replaces itself with mpirun. A process that was started so, or by any
/// launcher, joins its job.
int with_ranks(int ranks, const std::string& communicator, char** argv,
               const std::function<void(Communicator&)>& body);

}  // namespace shampoo::test
