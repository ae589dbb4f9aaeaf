// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/rank_table.h"

#include <algorithm>

namespace shampoo::joining {
namespace {

// More processes than this for one rank are somebody's garbage: the oldest is forgotten.
constexpr std::size_t most_candidates = 16;

}  // namespace

Seats::Seats(const Hello& self) : seats_(static_cast<std::size_t>(self.size)) {
  seats_[0].candidates.push_back({.hello = self, .answered = true, .asked_from_start = true});
  seats_[0].current = 0;
}

bool Seats::put(int rank, const Hello& hello) {
  Seat& seat = seats_[rank];
  const auto known = std::ranges::find(
      seat.candidates, hello.nonce,
      [](const Candidate& candidate) -> auto& { return candidate.hello.nonce; });
  if (known != seat.candidates.end()) {
    if (rank != 0) seat.current = static_cast<int>(known - seat.candidates.begin());
    return false;
  }
  if (seat.candidates.size() == most_candidates) {
    // Rank 0 itself stays first in its seat.
    seat.candidates.erase(seat.candidates.begin() + (rank == 0 ? 1 : 0));
  }
  seat.candidates.push_back({.hello = hello});
  if (rank != 0) seat.current = static_cast<int>(seat.candidates.size()) - 1;
  // Whoever wrote over our own hello did live.
  if (rank == 0) seat.candidates.back().answered_earlier = true;
  return true;
}

Candidate* Seats::current(int rank) {
  Seat& seat = seats_[rank];
  return seat.current < 0 ? nullptr : &seat.candidates[seat.current];
}

void Seats::begin_generation() {
  for (Seat& seat : seats_) {
    for (Candidate& candidate : seat.candidates) {
      candidate.answered_earlier = candidate.answered_earlier || candidate.answered;
      candidate.answered = false;
      candidate.asked_from_start = true;
    }
  }
  seats_[0].candidates[0].answered = true;
}

std::vector<int> Seats::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    const Seat& seat = seats_[rank];
    if (seat.current < 0 || !seat.candidates[seat.current].answered) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> Seats::silent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (seats_[rank].current < 0) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<Seats::Conflict> Seats::conflict() const {
  std::optional<Conflict> found;
  for (const Seat& seat : seats_) {
    const Candidate* one = nullptr;
    for (const Candidate& other : seat.candidates) {
      if (!other.answered) continue;
      if (one != nullptr) {
        const bool proven = one->asked_from_start && other.asked_from_start;
        if (!found || proven) found = Conflict{one, &other, proven};
        if (proven) return found;
      } else {
        one = &other;
      }
    }
  }
  return found;
}

bool Seats::doubtful() const {
  return std::ranges::any_of(seats_, [](const Seat& seat) {
    return seat.candidates.size() > 1 &&
           std::ranges::any_of(seat.candidates, [](const Candidate& candidate) {
             return candidate.answered_earlier && !candidate.answered;
           });
  });
}

std::string Seats::misfit() const {
  const Hello& self = seats_[0].candidates[0].hello;
  for (const Seat& seat : seats_) {
    for (const Candidate& candidate : seat.candidates) {
      if (!candidate.answered) continue;
      std::string text = joining::misfit(self, candidate.hello);
      if (!text.empty()) return text;
    }
  }
  return {};
}

std::vector<std::string> Seats::nonces() const {
  std::vector<std::string> all;
  for (const Seat& seat : seats_) all.push_back(seat.candidates.at(seat.current).hello.nonce);
  return all;
}

}  // namespace shampoo::joining
