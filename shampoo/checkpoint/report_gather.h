// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "kernels/facets.h"

namespace shampoo::checkpoint {

/// Sends a text of every rank to rank 0, in rounds, through memory that is there before the first.
/// The others neither receive the texts nor keep memory for them.
class ReportGather {
 public:
  /// Both must outlive it. Throws std::bad_alloc.
  ReportGather(kernels::Backend& backend, Communicator& communicator);

  /// On rank 0 the texts of all ranks, whose lengths all ranks know; elsewhere empty ones.
  /// Collective. Throws CommunicationError, on all ranks also for another error of one.
  std::vector<std::string> run(const std::string& own, std::span<const std::int64_t> lengths);

 private:
  struct Memory;

  void send_round(const std::string& own, std::int64_t begin, std::span<const std::int64_t> lengths,
                  std::vector<std::string>& texts);

  kernels::Backend& backend_;
  Communicator& communicator_;
  std::int64_t most_;  ///< bytes of a rank in a round
  std::vector<std::int64_t> sent_, received_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace shampoo::checkpoint
