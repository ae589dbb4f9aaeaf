// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace shampoo::test {

/// A request and its reply, in the notation of bytes().
struct GoldenExchange {
  std::string_view name, request, reply;
};

/// Recorded from both servers of torch 2.15: an empty store, this order, one connection.
std::span<const GoldenExchange> golden_exchanges();
/// Recorded from the server of torch 1.13.
std::span<const GoldenExchange> golden_old_exchanges();

}  // namespace shampoo::test
