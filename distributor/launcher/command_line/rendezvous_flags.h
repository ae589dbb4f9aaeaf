// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/command_line/parse_values.h"

namespace shampoo::launcher {

/// The flags that together say where the store is, as given.
struct RendezvousFlags {
  bool standalone = false;
  std::string backend = "static";
  Endpoint endpoint;  ///< without a host where the flag was not given
  int node_rank = 0;
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 29'500;
  std::set<std::string> given;  ///< names without dashes in front, such as "master-port"
};

/// Sets rendezvous, endpoint, node rank and run id; `options.nodes` must be known. Throws
/// UsageError.
void apply_rendezvous(const RendezvousFlags& flags, LaunchOptions& options);

/// The keys of --rdzv-conf. Throws InvalidValue or UsageError.
void apply_rendezvous_settings(const std::string& text, LaunchOptions& options);

}  // namespace shampoo::launcher
