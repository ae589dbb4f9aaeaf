// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/flag_values.h"
#include "distributor/launcher/launch_options.h"

namespace shampoo::launcher {

// Each throws UsageError, naming the value's source, for what is not of the wanted form.

int whole_number(const FlagValue& value, int least, int most);
/// Fractions are allowed; at most a year.
std::chrono::milliseconds seconds(const FlagValue& value);
/// At commas. "" has none; empty parts are errors.
std::vector<std::string> parts(const FlagValue& value);
std::set<int> local_ranks(const FlagValue& value);
/// "0" to "3", or "0:3,12:1".
StreamChoice stream_choice(const FlagValue& value);
/// Signal names at commas.
std::vector<int> signal_numbers(const FlagValue& value);

struct NodeRange {
  int least = 1, most = 1;
};
/// "N" or "MIN:MAX".
NodeRange node_range(const FlagValue& value);

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  bool has_port = false;
};
/// "host", "host:port", "[::1]:port", "::1". "" has no host.
Endpoint endpoint(const FlagValue& value);

/// "key=value,..."
std::map<std::string, FlagValue> settings(const FlagValue& value);

/// "SIGTERM"; "signal 99" where it has no name.
std::string signal_name(int signal);

}  // namespace shampoo::launcher
