// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "distributor/rendezvous/hello.h"
#include "distributor/rendezvous/registration.h"
#include "distributor/rendezvous/rendezvous_keys.h"
#include "distributor/rendezvous/rendezvous_result.h"
#include "distributor/store/store.h"

namespace shampoo::joining {

/// Any rank but 0 in an agreement: says hello, answers invitations, waits for the verdict.
class Member {
 public:
  using Clock = std::chrono::steady_clock;

  Member(Store& store, Hello self, const AgreementOptions& options);

  /// The generation. Throws CommunicationError, and StoreLost.
  std::string run();

 private:
  void say_hello();
  /// Until the verdict or the deadline.
  void wait_for_verdict();
  /// True where something is new.
  bool look_at_invitation();
  bool look_at_verdict();
  void defend_hello();
  /// Rank 0 may be about a job of another size.
  void check_size();
  /// Generation and size; empty: there is none.
  std::string undecided_call();
  void object(const std::string& generation);
  void accept(const RendezvousResult& verdict);
  [[noreturn]] void give_up();

  Store& store_;
  AgreementKeys keys_;
  Hello self_;
  std::chrono::milliseconds deadline_;
  std::string place_;
  Clock::time_point end_;
  std::string generation_;  ///< the one last answered
  bool invited_ = false;
  bool agreed_ = false;
};

}  // namespace shampoo::joining
