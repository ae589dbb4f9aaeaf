// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace shampoo::test {

/// What a client sends and what it gets, in the notation of bytes().
struct GoldenExchange {
  std::string_view name, request, reply;
};

/// With servers of torch 2.15 of either kind, on an empty store, in this order, on one connection.
std::span<const GoldenExchange> golden_exchanges();
/// Queues, which torch has on its libuv server only; another key on the same store.
std::span<const GoldenExchange> golden_queue_exchanges();
/// With the server of torch 1.13.
std::span<const GoldenExchange> golden_old_exchanges();

}  // namespace shampoo::test
