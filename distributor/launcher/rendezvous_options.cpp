// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/rendezvous_options.h"

#include <random>

#include "distributor/launcher/read_values.h"

namespace shampoo::launcher {
namespace {

constexpr std::uint16_t kDynamicPort = 29'400;
constexpr const char* kDigits = "0123456789abcdef";

/// As a random UUID.
std::string random_run_id() {
  std::random_device device;
  std::string id = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  for (char& letter : id) {
    const unsigned digit = device() % 16;
    if (letter == 'x') letter = kDigits[digit];
    if (letter == 'y') letter = kDigits[8 + digit % 4];
  }
  return id;
}

bool truth(const FlagValue& value) {
  if (value.text == "1" || value.text == "true" || value.text == "True") return true;
  if (value.text == "0" || value.text == "false" || value.text == "False") return false;
  throw UsageError(value.source + " must be 0 or 1, not '" + value.text + "'");
}

void read_setting(const std::string& key, const FlagValue& value, LaunchOptions& options) {
  if (key == "join_timeout" || key == "timeout") {
    options.times.join = seconds(value);
  } else if (key == "last_call_timeout") {
    options.times.last_call = seconds(value);
  } else if (key == "keep_alive_interval" || key == "heartbeat_timeout") {
    options.times.heartbeat = seconds(value);
  } else if (key == "keep_alive_max_attempt") {
    options.times.heartbeats_missed = whole_number(value, 1, 1000);
  } else if (key == "is_host") {
    options.is_host = truth(value);
  } else if (key == "store_type" && value.text == "tcp") {
    return;
  } else if (key == "close_timeout" || key == "read_timeout" || key == "rank" ||
             key == "use_libuv") {
    options.warnings.push_back(value.source + " has no effect");
  } else if (key == "store_type") {
    throw UsageError(value.source + " must be tcp; stores in files are not supported");
  } else {
    throw UsageError(value.source + ": no such setting; see --help");
  }
}

void read_one_node(const FlagValues& values, LaunchOptions& options) {
  if (options.most_nodes != 1) {
    throw UsageError(values.value("standalone").source + " is for one node, but " +
                     values.value("nnodes").source + " asks for " + values.text("nnodes"));
  }
  for (const char* name : {"rdzv-backend", "rdzv-endpoint", "node-rank", "master-addr"}) {
    if (values.given(name)) {
      options.warnings.push_back(values.value(name).source + " has no effect on one node alone");
    }
  }
  if (!values.given("rdzv-id") || options.run_id == "none") options.run_id = random_run_id();
}

void read_fixed(const FlagValues& values, LaunchOptions& options) {
  if (options.least_nodes != options.most_nodes) {
    throw UsageError("--rdzv-backend=static wants a fixed number of nodes, not " +
                     values.text("nnodes") + "; see c10d");
  }
  options.rendezvous = Rendezvous::fixed;
  options.node_rank = whole_number(values.value("node-rank"), 0, options.most_nodes - 1);
  if (values.given("rdzv-endpoint") && !values.text("rdzv-endpoint").empty()) {
    const Endpoint given = endpoint(values.value("rdzv-endpoint"));
    if (given.host.empty() || !given.has_port) {
      throw UsageError(values.value("rdzv-endpoint").source +
                       " must be HOST:PORT where --rdzv-backend is static");
    }
    options.endpoint_host = given.host;
    options.endpoint_port = given.port;
  } else {
    options.endpoint_host = endpoint(values.value("master-addr")).host;
    options.endpoint_port =
        static_cast<std::uint16_t>(whole_number(values.value("master-port"), 0, 65'535));
  }
  if (options.endpoint_port == 0 && options.most_nodes > 1) {
    throw UsageError("port 0 cannot be found by other nodes; give --master-port");
  }
}

void read_dynamic(const FlagValues& values, LaunchOptions& options) {
  const FlagValue value = values.value("rdzv-endpoint");
  const Endpoint given = endpoint(value);
  options.rendezvous = Rendezvous::dynamic;
  options.endpoint_host = given.host.empty() ? "localhost" : given.host;
  options.endpoint_port = given.has_port ? given.port : kDynamicPort;
  if (options.endpoint_port == 0) {
    if (options.most_nodes > 1) {
      throw UsageError(value.source + ": port 0 cannot be found by other nodes");
    }
    options.rendezvous = Rendezvous::one_node;
    options.endpoint_host = "localhost";
  }
  for (const char* name : {"node-rank", "master-addr", "master-port"}) {
    if (values.given(name)) {
      options.warnings.push_back(values.value(name).source + " has no effect with c10d");
    }
  }
}

}  // namespace

void read_rendezvous(const FlagValues& values, LaunchOptions& options) {
  const NodeRange nodes = node_range(values.value("nnodes"));
  options.least_nodes = nodes.least;
  options.most_nodes = nodes.most;
  options.run_id = values.text("rdzv-id");
  if (options.run_id.empty()) throw UsageError(values.value("rdzv-id").source + " is empty");
  options.local_address = values.text("local-addr");

  const FlagValue backend = values.value("rdzv-backend");
  const bool fixed = backend.text == "static";
  if (backend.text.starts_with("etcd")) {
    throw UsageError(backend.source + ": " + backend.text +
                     " is not supported, as no etcd server is needed: use c10d or static");
  }
  if (!fixed && backend.text != "c10d") {
    throw UsageError(backend.source + " must be static or c10d, not '" + backend.text + "'");
  }
  const bool says_where = !values.text("rdzv-endpoint").empty() || values.given("master-port");
  if (values.on("standalone") || (fixed && !says_where && nodes.most == 1)) {
    read_one_node(values, options);
  } else if (fixed) {
    read_fixed(values, options);
  } else {
    read_dynamic(values, options);
  }
  for (const auto& [key, value] : settings(values.value("rdzv-conf"))) {
    read_setting(key, value, options);
  }
}

}  // namespace shampoo::launcher
