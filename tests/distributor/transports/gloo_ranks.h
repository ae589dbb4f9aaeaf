// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "distributor/store/store.h"
#include "distributor/transports/gloo/gloo.h"
#include "tests/distributor/transports/transport_processes.h"

namespace shampoo::test {

/// Rank `rank` of `size` processes that use one store.
inline std::unique_ptr<Communicator> gloo_rank(
    int rank, int size, const StoreProcess& server,
    std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
  return gloo_communicator({.rank = rank, .size = size, .local_rank = rank},
                           connect_store("127.0.0.1", server.port(), std::chrono::seconds(10)),
                           {.prefix = "test", .deadline = deadline});
}

/// "missing 1 2; the message".
inline std::string story(const CommunicationError& error) {
  std::string text = "missing";
  for (const int r : error.missing_ranks()) text += " " + std::to_string(r);
  return text + "; " + error.what();
}

}  // namespace shampoo::test
