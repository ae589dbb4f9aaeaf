// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "distributor/rendezvous/join.h"
#include "distributor/rendezvous/variables.h"
#include "distributor/store/tcp_store.h"

namespace shampoo::joining {

/// How a process was started.
enum class Start : std::uint8_t { given, torchrun, open_mpi, mpich, slurm, alone };

std::string_view name_of(Start start);

/// What a process knows of its job before it talks to anybody.
struct Detected {
  Start start = Start::alone;
  int rank = 0, size = 1, local_rank = 0;
  std::optional<int> local_size = {};
  std::string host = {};   ///< where ranks meet; empty: unknown
  std::uint16_t port = 0;  ///< 0: unknown
  bool agent_hosts_store = false;
  StoreProtocol protocol = StoreProtocol::automatic;
  std::string job = {};  ///< tells apart jobs that meet at one store
};

/// In the order that join() documents. Pure.
/// Throws std::invalid_argument for options out of range, and one for variables that are partial or
/// contradict each other: what is wrong, what was found, what is accepted.
Detected detect(const Variables& variables, const JoinOptions& options = {});

}  // namespace shampoo::joining
