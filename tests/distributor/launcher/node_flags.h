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

/// Of two nodes with two workers each. Nobody counts as lost for being silent.
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

inline Words node(const std::string& nodes, const std::string& port, const std::string& restarts) {
  return {"--nnodes",           nodes,
          "--rdzv-backend",     "c10d",
          "--rdzv-endpoint",    "localhost:" + port,
          "--rdzv-id",          "job",
          "--rdzv-conf",        "join_timeout=60,last_call_timeout=1,keep_alive_max_attempt=100",
          "--shutdown-timeout", "2",
          "--max-restarts",     restarts};
}

/// For node(): decides who serves the store, and counts as lost who is silent for a few seconds.
inline Words host(const std::string& is_host) {
  return {"--rdzv-conf", "is_host=" + is_host +
                             ",join_timeout=60,last_call_timeout=1,keep_alive_interval=1,"
                             "keep_alive_max_attempt=4"};
}

}  // namespace shampoo::launcher::test
