// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distributor/rendezvous/hello.h"

namespace shampoo::joining {

/// A process that said hello as some rank.
struct Candidate {
  Hello hello;
  bool answered = false;          ///< in this generation
  bool answered_earlier = false;  ///< in one before: it did live
  bool asked_from_start = false;  ///< known when this generation began
};

/// What rank 0 knows of the processes that want to be each rank. Pure.
class Seats {
 public:
  /// The seat of rank 0 is taken by the process itself.
  explicit Seats(const Hello& self);

  int size() const { return static_cast<int>(seats_.size()); }
  /// The hello that lies in the store for the rank. True: a process not seen before.
  bool put(int rank, const Hello& hello);
  std::vector<Candidate>& candidates(int rank) { return seats_[rank].candidates; }
  /// Whose hello was there last; null: nobody's.
  Candidate* current(int rank);

  void begin_generation();

  /// Ranks without a process that has answered.
  std::vector<int> missing() const;
  /// Ranks as which nobody has said hello.
  std::vector<int> silent() const;
  bool complete() const { return missing().empty(); }

  /// A rank as which two processes answered, and whether the second question proves that both live.
  struct Conflict {
    const Candidate *one = nullptr, *other = nullptr;
    bool proven = false;
  };
  std::optional<Conflict> conflict() const;
  /// Somebody who did live has not answered this time: may be dead, may be slow.
  bool doubtful() const;
  /// Why some process that has answered cannot work with rank 0; empty: all can.
  std::string misfit() const;

  std::vector<std::string> nonces() const;

 private:
  struct Seat {
    std::vector<Candidate> candidates;
    int current = -1;
  };
  std::vector<Seat> seats_;
};

}  // namespace shampoo::joining
