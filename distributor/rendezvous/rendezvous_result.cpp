// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/rendezvous_result.h"

#include <sstream>

#include "distributor/rendezvous/hello.h"

namespace shampoo::joining {

std::string text_of(const RendezvousResult& verdict) {
  std::string text;
  switch (verdict.kind) {
    case RendezvousResult::Kind::go:
      text = "go\n";
      for (const std::string& nonce : verdict.nonces) text += nonce + "\n";
      break;
    case RendezvousResult::Kind::again:
      text = "again\n";
      break;
    case RendezvousResult::Kind::refuse:
      text = "refuse\n";
      for (const int rank : verdict.missing) text += std::to_string(rank) + " ";
      text += "\n" + verdict.reason;
      break;
  }
  return text;
}

std::optional<RendezvousResult> verdict_of(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string line;
  std::getline(lines, line);
  if (line == "again") return RendezvousResult{};
  if (line == "go") {
    RendezvousResult verdict{.kind = RendezvousResult::Kind::go};
    while (std::getline(lines, line)) {
      if (!is_id(line)) return std::nullopt;
      verdict.nonces.push_back(line);
    }
    return verdict;
  }
  if (line == "refuse" && std::getline(lines, line)) {
    RendezvousResult verdict{.kind = RendezvousResult::Kind::refuse};
    std::istringstream ranks(line);
    for (int rank = 0; ranks >> rank;) verdict.missing.push_back(rank);
    std::getline(lines, verdict.reason, '\0');
    return verdict;
  }
  return std::nullopt;
}

}  // namespace shampoo::joining
