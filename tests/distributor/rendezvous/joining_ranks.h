// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "distributor/store/store_server.h"

namespace shampoo::test {

enum class JoinStage : std::uint8_t {
  registered,  ///< ranks have found each other in the store, as all of join() but NCCL's part
  connected    ///< and over Gloo
};

/// What it took ranks to join.
struct JoinCosts {
  std::chrono::duration<double> time{};
  StoreStatistics store;
  std::size_t descriptors = 0;  ///< of all ranks and the store, which are in one process
};

/// Ranks that are threads of this process join a job as processes would, over sockets to a store of
/// their own. `full_mesh`: they call all_to_all() then.
JoinCosts join_ranks(int ranks, JoinStage stage, bool full_mesh = false);

}  // namespace shampoo::test
