// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "distributor/communicator.h"
#include "distributor/exchange.h"
#include "distributor/segment_header.h"
#include "shampoo/protocol/transferable_error.h"

namespace shampoo {

/// A value of SegmentHeader::step as text: "step 6", "saving a checkpoint".
std::string call_text(std::int64_t call);
/// The same without the number of a step; of static lifetime.
std::string_view call_name(std::int64_t call);

/// Lazily built text used to explain a header mismatch.
struct Diagnostics {
  std::string_view subject = "plan";  ///< names what SegmentHeader::plan is a hash of
  std::function<std::string()> plan = {}, rates = {}, presence = {};  ///< return lines
  std::function<std::string_view(int)> name = {};                     ///< parameter name by row
};

/// Decision derived from the headers of all ranks; identical on every rank.
struct StepDecision {
  kernels::ScanResult scan = {};                ///< skips if any rank skips
  std::optional<TransferableError> error = {};  ///< thrown on every rank
  bool after_apply = false;                     ///< `error` is thrown after the update is applied
  bool diverged = false;                        ///< the state of the ranks is no longer consistent
  int non_finite_direction = -1;                ///< first row of a parameter that has one, or -1
};

/// Error message of a replayed step that was captured without what is now due.
inline constexpr const char* missing_refresh_text =
    "a refresh is due, and the step that was replayed was captured without one, or with a smaller "
    "one, or the refresh has host steps, which no graph has (see refresh_has_host_steps()); it "
    "changed nothing";

/// One error that names the ranks that have one. It is a CheckpointError if a rank has one and the
/// others at most what does not fit. Collective.
TransferableError gather_errors(kernels::Backend& backend, Communicator& communicator,
                                const std::optional<TransferableError>& own);

/// Reaches consensus across ranks; on disagreement every rank throws the same exception.
class Consensus {
 public:
  /// `backend` and `communicator` must outlive this object.
  Consensus(kernels::Backend& backend, Communicator& communicator);

  bool alone() const { return communicator_.size() == 1; }
  /// An exchange of headers alone; null on one rank. Each run overwrites what the last one left.
  Exchange* headers() { return headers_ ? &*headers_ : nullptr; }
  std::int64_t workspace_bytes() const { return headers_ ? headers_->bytes() : 0; }

  /// Collective. Compares the lines `text` about `subject` across ranks for a call other than a
  /// step; `own` is the error of this rank, if any. `call`: see SegmentHeader::step.
  StepDecision decide_call(std::int64_t call, std::string_view subject, const std::string& text,
                           const std::optional<TransferableError>& own);

  /// Decides the outcome of a step. Runs further collectives only if the headers differ or report
  /// an error. `own`: the error behind this rank's status. `vote`: nothing was written yet.
  StepDecision decide(std::span<const SegmentHeader> headers,
                      const std::optional<TransferableError>& own, const Diagnostics& diagnostics,
                      bool vote);

  /// Error if the ranks use different versions or are not at the same call or step.
  static std::optional<TransferableError> find_desynchronization(
      std::span<const SegmentHeader> headers);

 private:
  static std::optional<TransferableError> find_missing_refresh(
      std::span<const SegmentHeader> headers);
  std::optional<TransferableError> find_difference(std::span<const SegmentHeader> headers,
                                                   const Diagnostics& diagnostics);
  static std::optional<TransferableError> compare_gradients(std::span<const SegmentHeader> headers,
                                                            const Diagnostics& diagnostics);

  kernels::Backend& backend_;
  Communicator& communicator_;
  std::optional<Exchange> headers_;
};

}  // namespace shampoo
