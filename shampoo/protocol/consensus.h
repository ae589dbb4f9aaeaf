// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "distributor/communicator.h"
#include "distributor/segment_header.h"
#include "shampoo/protocol/transferable_error.h"

namespace shampoo {

/// What this rank can say at length where headers differ.
struct Diagnostics {
  std::string_view subject = "plan";  ///< what the header's hash of the plan is about
  std::function<std::string()> plan = {}, rates = {}, presence = {};  ///< lines of text
  std::function<std::string_view(int)> name = {};                     ///< of the parameter in a row
};

/// What follows from the headers of all ranks; the same on all of them.
struct StepDecision {
  kernels::ScanResult verdict = {};             ///< refuses where any rank does
  std::optional<TransferableError> fault = {};  ///< to be thrown
  bool after_apply = false;                     ///< thrown when the step was taken
  bool diverged = false;  ///< ranks no longer have the state that belongs together
};

/// What is said of a step that was captured without the refresh that it must do.
inline constexpr const char* unfit_text =
    "a refresh of roots is due, and the step that was replayed was captured without one; it "
    "changed nothing";

/// How ranks become of one mind, or throw the same error.
class Consensus {
 public:
  /// Backend and communicator must outlive it.
  Consensus(Backend& backend, Communicator& communicator)
      : backend_(backend), communicator_(communicator) {}

  bool alone() const { return communicator_.size() == 1; }

  static std::uint64_t hash_of(const std::string& text);

  /// Collective. Compares what the ranks are about to do in a call that is not a step, as lines
  /// about a subject; `own` is the fault that this rank has met. See SegmentHeader::step.
  StepDecision rule_on(std::int64_t call, std::string_view subject, const std::string& text,
                       const std::optional<TransferableError>& own);

  /// Collective. Whether it holds on all ranks. `call` as in rule_on().
  bool everywhere(std::int64_t call, bool holds);

  /// Rules over a step. Further collectives happen only if the headers are not all alike; `own` is
  /// the fault behind this rank's finding. `vote`: nothing has been written yet.
  StepDecision decide(std::span<const SegmentHeader> headers,
                      const std::optional<TransferableError>& own, const Diagnostics& diagnostics,
                      bool vote);

 private:
  TransferableError gather_faults(const std::optional<TransferableError>& own);
  static std::optional<TransferableError> find_separation(std::span<const SegmentHeader> headers);
  static std::optional<TransferableError> find_unfit(std::span<const SegmentHeader> headers);
  std::optional<TransferableError> find_difference(std::span<const SegmentHeader> headers,
                                                   const Diagnostics& diagnostics);
  static std::optional<TransferableError> compare_gradients(std::span<const SegmentHeader> headers,
                                                            const Diagnostics& diagnostics);

  Backend& backend_;
  Communicator& communicator_;
};

}  // namespace shampoo
