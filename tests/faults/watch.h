// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tests/faults/progress.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"

namespace shampoo::test {

/// What fault_trainer is to do.
using Orders = std::map<std::string, std::string>;

/// From words name=value; the others have their defaults. Throws std::invalid_argument.
Orders read_orders(int count, char** words);
int number(const Orders& orders, const std::string& name);

/// Publishes the progress of this rank, and fails at the phase and step given by the orders. One in
/// a process.
class Watch {
 public:
  /// Borrows the orders.
  Watch(const Orders& orders, int rank);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void enter(Phase phase, int step = 0);
  /// A phase of the same step.
  void go_on(Phase phase) { enter(phase, step_); }
  /// A download from the backend: of the state, if it comes in a save.
  void pass_download();
  void end(std::uint64_t checksum) { page_.end(checksum); }

  std::function<void()> abort = [] {};

 private:
  /// A part of a phase, which is told only by failing in it.
  void pass(Phase part);
  /// A system call of a save, which may go on beside later steps.
  void pass_call(const std::string& call);
  bool is_meant(Phase phase) const;
  void strike();

  const Orders& orders_;
  ProgressPage page_;
  std::atomic<bool> rank_is_meant_;
  Phase phase_ = Phase::joining;
  int step_ = 0;
  std::optional<checkpoint::test::CallWatch> calls_;
};

}  // namespace shampoo::test
