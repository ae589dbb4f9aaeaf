// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "distributor/rendezvous/hello.h"
#include "distributor/rendezvous/rank_table.h"
#include "distributor/rendezvous/registration.h"
#include "distributor/rendezvous/rendezvous_keys.h"
#include "distributor/rendezvous/rendezvous_result.h"
#include "distributor/store/store.h"

namespace shampoo::joining {

/// Rank 0 in an agreement: invites, compares, decides.
class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;

  Coordinator(Store& store, const Hello& self, const AgreementOptions& options);

  /// The generation. Throws CommunicationError.
  std::string run();

 private:
  void begin_generation();
  void invite(const Candidate& candidate);
  /// New hellos, where the bell rang. True where there was one.
  bool look_for_hellos();
  /// Is somebody else on the seat of rank 0?
  void guard_seat();
  /// Another rank 0 asks, and may have refused already.
  void answer_rival();
  void look_for_answers();
  void look_for_objection();
  void wait_a_little();
  bool can_go();
  [[noreturn]] void refuse(const std::string& reason, const std::vector<int>& missing = {});
  /// Whether the refusal was read by all who may still come: all ranks but the missing ones.
  bool all_told(const std::vector<int>& missing);

  Store& store_;
  AgreementKeys keys_;
  Hello self_;
  std::chrono::milliseconds deadline_;
  std::string place_;
  Clock::time_point end_;
  Seats seats_;
  std::string generation_;
  Clock::time_point generation_began_;
  std::string bell_ = "not read yet";
  std::string rival_;                   ///< generation of another rank 0
  std::vector<std::string> objectors_;  ///< nonces
  std::chrono::milliseconds nap_{1};
  Clock::time_point next_hellos_, next_answers_, next_guard_;
};

}  // namespace shampoo::joining
