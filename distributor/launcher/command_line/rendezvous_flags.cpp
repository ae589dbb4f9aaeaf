// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/command_line/rendezvous_flags.h"

#include <random>

namespace shampoo::launcher {
namespace {

/// A random UUID.
std::string random_run_id() {
  constexpr const char* digits = "0123456789abcdef";
  std::random_device device;
  std::string id = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  for (char& letter : id) {
    const unsigned digit = device() % 16;
    if (letter == 'x') letter = digits[digit];
    if (letter == 'y') letter = digits[8 + digit % 4];
  }
  return id;
}

void warn_without_effect(const RendezvousFlags& flags, std::initializer_list<const char*> names,
                         const std::string& where, LaunchOptions& options) {
  for (const std::string name : names)
    if (flags.given.contains(name))
      options.warnings.push_back("--" + name + " has no effect " + where);
}

void apply_one_node(const RendezvousFlags& flags, LaunchOptions& options) {
  if (options.nodes != 1)
    throw UsageError("--standalone is for one node, but --nnodes asks for " +
                     std::to_string(options.nodes));
  warn_without_effect(flags, {"rdzv-backend", "rdzv-endpoint", "node-rank", "master-addr"},
                      "on one node alone", options);
  if (!flags.given.contains("rdzv-id") || options.run_id == "none")
    options.run_id = random_run_id();
}

void apply_static(const RendezvousFlags& flags, LaunchOptions& options) {
  options.rendezvous = Rendezvous::fixed;
  options.node_rank = flags.node_rank;
  if (options.node_rank >= options.nodes)
    throw UsageError("--node-rank must be a whole number from 0 to " +
                     std::to_string(options.nodes - 1) + ", not '" +
                     std::to_string(options.node_rank) + "'");
  options.endpoint_host = flags.master_address;
  options.endpoint_port = flags.master_port;
  if (!flags.endpoint.host.empty()) {
    if (!flags.endpoint.has_port)
      throw UsageError("--rdzv-endpoint must be HOST:PORT where --rdzv-backend is static");
    options.endpoint_host = flags.endpoint.host;
    options.endpoint_port = flags.endpoint.port;
  }
}

void apply_c10d(const RendezvousFlags& flags, LaunchOptions& options) {
  constexpr std::uint16_t standard_port = 29'400;
  options.rendezvous = Rendezvous::dynamic;
  options.endpoint_host = flags.endpoint.host.empty() ? "localhost" : flags.endpoint.host;
  options.endpoint_port = flags.endpoint.has_port ? flags.endpoint.port : standard_port;
  if (options.endpoint_port == 0 && options.nodes == 1) {
    options.rendezvous = Rendezvous::one_node;
    options.endpoint_host = "localhost";
  }
  warn_without_effect(flags, {"node-rank", "master-addr", "master-port"}, "with c10d", options);
}

}  // namespace

void apply_rendezvous(const RendezvousFlags& flags, LaunchOptions& options) {
  const bool is_static = flags.backend == "static";
  const bool has_place = !flags.endpoint.host.empty() || flags.given.contains("master-port");
  if (flags.standalone || (is_static && !has_place && options.nodes == 1))
    apply_one_node(flags, options);
  else if (is_static)
    apply_static(flags, options);
  else
    apply_c10d(flags, options);
  if (options.endpoint_port == 0 && options.nodes > 1)
    throw UsageError(
        "port 0 cannot be found by other nodes; give --master-port or --rdzv-endpoint");
}

void apply_rendezvous_settings(const std::string& text, LaunchOptions& options) {
  for (const auto& [key, value] : parse_settings(text)) {
    if (key == "join_timeout" || key == "timeout") {
      options.times.join = parse_seconds(value);
    } else if (key == "keep_alive_interval" || key == "heartbeat_timeout") {
      options.times.heartbeat = parse_seconds(value);
      if (options.times.heartbeat.count() == 0)
        throw UsageError("--rdzv-conf, " + key + ": must be above 0");
    } else if (key == "keep_alive_max_attempt") {
      options.times.heartbeats_missed = parse_number(value, 1, 1000);
    } else if (key == "is_host") {
      options.is_host = parse_bool(value);
    } else if (key == "close_timeout" || key == "read_timeout" || key == "last_call_timeout" ||
               key == "rank" || key == "use_libuv") {
      options.warnings.push_back("--rdzv-conf, " + key + " has no effect");
    } else if (key != "store_type" || value != "tcp") {
      throw UsageError(key == "store_type"
                           ? "--rdzv-conf: store_type must be tcp"
                           : "--rdzv-conf: there is no key " + key + "; see --help");
    }
  }
}

}  // namespace shampoo::launcher
