// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/system/environment.h"

namespace shampoo::launcher {

/// The accepted form, as in "a whole number from 0 to 3".
struct InvalidValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A value that is valid elsewhere; the reason and the way out.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Endpoint {
  std::string host;
  std::optional<std::uint16_t> port;
};

/// Processors that are online.
int count_processors();

// Each throws InvalidValue, or Unsupported where it says so.

int parse_number(std::string_view text, int least, int most);
/// "4", "cpu", "gpu" or "auto". GPUs are entries of CUDA_VISIBLE_DEVICES up to the first -1, or
/// where that is not set, files /dev/nvidia<n>. Throws UsageError where there are none for "gpu".
int parse_workers(std::string_view text, const Environment& environment);
/// "N", or "N:N" as torchrun writes it. A range is Unsupported.
int parse_nodes(std::string_view text);
/// Fractions are allowed; from 0 to a year.
std::chrono::milliseconds parse_seconds(std::string_view text);
/// "0,2"; "" is the empty set.
std::set<int> parse_local_ranks(std::string_view text);
/// "0" to "3", or "0:3,12:1".
StreamSelection parse_streams(std::string_view text);
/// "SIGTERM,SIGUSR1", without those that no process can forward.
std::vector<int> parse_signals(std::string_view text);
/// "host", "host:port", "[::1]:port", "::1". "" has no host.
Endpoint parse_endpoint(std::string_view text);
/// "key=value,..." of --rdzv-conf. Throws UsageError for unknown keys as well.
void parse_rendezvous_settings(std::string_view text, LaunchOptions& options);

}  // namespace shampoo::launcher
