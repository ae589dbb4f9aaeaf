// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distributor/launcher/flag_values.h"
#include "distributor/launcher/launch_options.h"

namespace shampoo::launcher {

/// Fills in how nodes meet: nodes, backend, endpoint, run id, node rank, times. Throws UsageError.
void read_rendezvous(const FlagValues& values, LaunchOptions& options);

}  // namespace shampoo::launcher
