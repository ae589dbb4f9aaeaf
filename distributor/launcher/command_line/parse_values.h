// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"

namespace shampoo::launcher {

/// The accepted form, as in "a whole number from 0 to 3".
class InvalidValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A value that is valid elsewhere; the reason and the way out.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  bool has_port = false;
};

// Each throws InvalidValue or Unsupported.

int parse_number(std::string_view text, int least, int most);
/// Fractions are allowed; from 0 to a year.
std::chrono::milliseconds parse_seconds(std::string_view text);
bool parse_bool(std::string_view text);
/// "0,2"; "" is the empty set.
std::set<int> parse_local_ranks(std::string_view text);
/// "0" to "3", or "0:3,12:1".
StreamSelection parse_streams(std::string_view text);
/// "SIGTERM,SIGUSR1", without those that no process can forward.
std::vector<int> parse_signals(std::string_view text);
/// "N", or "N:N" as torchrun writes it. A range is Unsupported.
int parse_nodes(std::string_view text);
/// "host", "host:port", "[::1]:port", "::1". "" has no host.
Endpoint parse_endpoint(std::string_view text);
/// "key=value,..."
std::map<std::string, std::string> parse_settings(std::string_view text);

}  // namespace shampoo::launcher
