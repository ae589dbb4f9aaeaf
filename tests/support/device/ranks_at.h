// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "distributor/communicator.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {

/// What one rank runs, with a backend and a communicator that fits it.
using RankBody = std::function<void(Communicator&, kernels::Backend&)>;

/// As run_ranks(), with a backend at `place` for each rank: a thread of the host, or an emulated
/// device. On a GPU there is one rank: see require_ranks().
void run_ranks_at(Place place, int n, const RankBody& body);

/// As require(), for tests with several ranks as threads: skipped on a GPU, of which NCCL gives
/// every rank its own.
void require_ranks(Place place);

}  // namespace shampoo::test
