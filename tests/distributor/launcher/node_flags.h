// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shampoo::launcher::test {

using Words = std::vector<std::string>;

inline Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Of two nodes with two workers each. Missing heartbeats count late.
inline Words fixed_node(const std::string& rank, const std::string& port) {
  return {"--nnodes",           "2",
          "--node-rank",        rank,
          "--master-addr",      "127.0.0.1",
          "--master-port",      port,
          "--rdzv-conf",        "timeout=60,keep_alive_max_attempt=100",
          "--nproc-per-node",   "2",
          "--max-restarts",     "1",
          "--shutdown-timeout", "2"};
}

/// Of two nodes with one worker each, which find each other.
inline Words node(const std::string& port) {
  return {"--nnodes",           "2",
          "--rdzv-backend",     "c10d",
          "--rdzv-endpoint",    "localhost:" + port,
          "--rdzv-id",          "job",
          "--rdzv-conf",        "join_timeout=60,keep_alive_max_attempt=100",
          "--shutdown-timeout", "2",
          "--max-restarts",     "1"};
}

/// For node(): decides who serves the store; a node is lost after a few seconds.
inline Words host(const std::string& is_host) {
  return {"--rdzv-conf",
          "is_host=" + is_host + ",join_timeout=60,keep_alive_interval=1,keep_alive_max_attempt=4"};
}

}  // namespace shampoo::launcher::test
