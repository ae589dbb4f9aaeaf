// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "distributor/communicator.h"

namespace shampoo::test {

/// A mistake in the second collective of 3 ranks: rank 1 is in another call.
struct Mismatch {
  std::string name;
  void (*call)(Communicator& ranks);  ///< on every rank
  std::vector<std::string> parts;     ///< of the message on all ranks
};

std::span<const Mismatch> mismatches();

/// Makes the mistake after a barrier and returns an empty text, or what is wrong: no
/// CommunicationError, not all parts, other ranks missing, or a wait of more than `longest`.
/// settle() waits for what the calls have queued.
std::string check_mismatch(
    Communicator& ranks, const Mismatch& mismatch, std::chrono::milliseconds longest,
    const std::function<void()>& settle = [] {});

}  // namespace shampoo::test
