// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shampoo::joining {

/// How one generation ended.
struct RendezvousResult {
  enum class Kind : std::uint8_t {
    go,     ///< all ranks are there
    again,  ///< there is a new generation: look at the invitation
    refuse
  };
  Kind kind = Kind::again;
  std::vector<std::string> nonces = {};  ///< go: of the processes that take part, by rank
  std::string reason = {};               ///< refuse
  std::vector<int> missing = {};         ///< refuse: ranks that did not come
};

std::string text_of(const RendezvousResult& verdict);
/// Empty for what is no such text.
std::optional<RendezvousResult> verdict_of(std::string_view text);

}  // namespace shampoo::joining
