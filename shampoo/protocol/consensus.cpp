// SPDX-License-Identifier: Apache-2.0
#include "shampoo/protocol/consensus.h"

#include <algorithm>
#include <bit>
#include <map>

#include "distributor/rank_list.h"
#include "distributor/serialization.h"
#include "distributor/text_consensus.h"
#include "grouping/hash.h"
#include "grouping/number_text.h"

namespace shampoo {

namespace {

/// "7 on rank 1, 8 on ranks 0 and 2"
template <typename ToText>
std::string list_values(std::span<const SegmentHeader> headers, const ToText& to_text) {
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t r = 0; r < headers.size(); ++r)
    ranks[to_text(headers[r])].push_back(static_cast<int>(r));
  std::string text;
  for (const auto& [value, members] : ranks)
    text += (text.empty() ? "" : ", ") + value + " on " + rank_list(members);
  return text;
}

template <typename Value>
bool differ(std::span<const SegmentHeader> headers, const Value& value) {
  return std::ranges::any_of(
      headers, [&](const SegmentHeader& h) { return value(h) != value(headers.front()); });
}

bool lacks_refresh(const SegmentHeader& header) {
  return header.scan.first_bad == kernels::needs_refresh;
}

/// A rank that finds a checkpoint broken explains why it does not fit another, and a rank that
/// cannot read it does not know whether it is broken.
int weight(TransferableError::Kind kind) {
  using enum TransferableError::Kind;
  if (kind == checkpoint) return 1;
  return kind == argument || kind == logic ? 0 : 2;
}

TransferableError disagreement(const std::string& message) {
  return {TransferableError::Kind::communication, message};
}

}  // namespace

std::string_view call_name(std::int64_t call) {
  switch (call) {
    case adding_groups:
      return "adding groups";
    case loading_state:
      return "loading a state";
    case collecting_state:
      return "collecting the state";
    case saving_checkpoint:
      return "saving a checkpoint";
    case opening_checkpoint:
      return "loading a checkpoint";
    case following_save:
      return "following a save";
    case evaluating:
      return "evaluating";
    case ending_evaluation:
      return "ending an evaluation";
    case averaging_gradients:
      return "averaging gradients";
    default:
      return "step";
  }
}

std::string call_text(std::int64_t call) {
  const std::string name(call_name(call));
  return call > 0 ? name + " " + std::to_string(call) : name;
}

TransferableError gather_errors(kernels::Backend& backend, Communicator& communicator,
                                const std::optional<TransferableError>& own) {
  const std::vector<std::string> texts =
      gather_texts(backend, communicator, own ? serialize(*own) : std::string());
  TransferableError joined{TransferableError::Kind::other, {}};
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t r = 0; r < texts.size(); ++r)
    if (!texts[r].empty()) ranks[texts[r]].push_back(static_cast<int>(r));
  for (const auto& [text, members] : ranks) {
    const TransferableError error = deserialize<TransferableError>(text);
    if (members.size() == texts.size()) return error;
    if (joined.message.empty() || weight(error.kind) >= weight(joined.kind)) {
      joined.kind = error.kind;
      joined.code = error.code;
    }
    joined.message +=
        (joined.message.empty() ? "" : "; ") + rank_list(members) + ": " + error.message;
  }
  return joined;
}

Consensus::Consensus(kernels::Backend& backend, Communicator& communicator)
    : backend_(backend), communicator_(communicator) {
  if (alone()) return;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  headers_.emplace(backend, communicator,
                   std::vector<std::int64_t>(ranks, std::int64_t{sizeof(SegmentHeader)}));
}

StepDecision Consensus::decide_call(std::int64_t call, std::string_view subject,
                                    const std::string& text,
                                    const std::optional<TransferableError>& own) {
  headers_->write({.step = call,
                   .plan = grouping::hash(text),
                   .status = own ? RankStatus::skipped : RankStatus::none});
  headers_->run();
  return decide(headers_->headers(), own, {.subject = subject, .plan = [&] { return text; }}, true);
}

StepDecision Consensus::decide(std::span<const SegmentHeader> headers,
                               const std::optional<TransferableError>& own,
                               const Diagnostics& diagnostics, bool vote) {
  StepDecision decision{.scan = headers[communicator_.rank()].scan};
  const auto any = [&](RankStatus status) {
    return std::ranges::find(headers, status, &SegmentHeader::status) != headers.end();
  };
  if (std::optional<TransferableError> desynchronized = find_desynchronization(headers)) {
    decision.error = std::move(desynchronized);
    decision.diverged = true;
    return decision;
  }
  if (any(RankStatus::skipped) || any(RankStatus::failed)) {
    const bool all_skipped = std::ranges::all_of(
        headers, [](const SegmentHeader& h) { return h.status == RankStatus::skipped; });
    decision.error = gather_errors(backend_, communicator_, own);
    decision.diverged = !vote && !all_skipped;
    return decision;
  }

  if (std::optional<TransferableError> missing = find_missing_refresh(headers)) {
    decision.error = std::move(missing);
    decision.diverged = !vote && !std::ranges::all_of(headers, lacks_refresh);
    return decision;
  }
  decision.error = find_difference(headers, diagnostics);
  if (!decision.error) decision.error = compare_gradients(headers, diagnostics);
  decision.diverged = decision.error && !vote;
  if (decision.error) return decision;
  for (const SegmentHeader& header : headers)
    if (const int row = header.non_finite_direction;
        row >= 0 && (decision.non_finite_direction < 0 || row < decision.non_finite_direction))
      decision.non_finite_direction = row;
  if (any(RankStatus::deferred_error)) {
    decision.error = gather_errors(backend_, communicator_, own);
    decision.after_apply = true;
  }
  return decision;
}

/// Error that lists the ranks whose replayed step lacks a due refresh.
std::optional<TransferableError> Consensus::find_missing_refresh(
    std::span<const SegmentHeader> headers) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < headers.size(); ++r)
    if (lacks_refresh(headers[r])) ranks.push_back(static_cast<int>(r));
  if (ranks.empty()) return std::nullopt;
  const bool all = ranks.size() == headers.size();
  return TransferableError{TransferableError::Kind::logic,
                           (all ? "" : rank_list(ranks) + ": ") + missing_refresh_text};
}

std::optional<TransferableError> Consensus::find_desynchronization(
    std::span<const SegmentHeader> headers) {
  if (differ(headers, [](const SegmentHeader& h) { return h.magic; }))
    return disagreement("the ranks have versions of the library that do not fit");
  if (differ(headers, [](const SegmentHeader& h) { return h.step; }))
    return disagreement(
        "the ranks are not at the same call: " +
        list_values(headers, [](const SegmentHeader& h) { return call_text(h.step); }));
  if (differ(headers, [](const SegmentHeader& h) { return h.taken; }))
    return disagreement(
        "the ranks have not taken the same number of steps: " +
        list_values(headers, [](const SegmentHeader& h) { return std::to_string(h.taken); }));
  return std::nullopt;
}

std::optional<TransferableError> Consensus::find_difference(std::span<const SegmentHeader> headers,
                                                            const Diagnostics& diagnostics) {
  const auto lines = [&](const std::string& text) {
    return first_difference(backend_, communicator_, text);
  };
  if (differ(headers, [](const SegmentHeader& h) { return h.plan; }))
    return disagreement("the ranks do not have the same " + std::string(diagnostics.subject) +
                        ": " + lines(diagnostics.plan()));
  if (differ(headers, [](const SegmentHeader& h) { return h.rates; }))
    return disagreement("the ranks do not have the same rates: " + lines(diagnostics.rates()));
  if (differ(headers, [](const SegmentHeader& h) { return h.presence; }))
    return disagreement(
        "the ranks do not have the same gradients or values: " + lines(diagnostics.presence()) +
        "; average gradients before every step, broadcast values before the first");
  return std::nullopt;
}

std::optional<TransferableError> Consensus::compare_gradients(
    std::span<const SegmentHeader> headers, const Diagnostics& diagnostics) {
  if (differ(headers, [](const SegmentHeader& h) { return h.scan.first_bad; }))
    return disagreement("the ranks do not have the same gradients: " +
                        list_values(headers, [&](const SegmentHeader& h) {
                          const std::string_view name = diagnostics.name(h.scan.first_bad);
                          return name.empty() ? std::string("all are finite")
                                              : "that of '" + std::string(name) + "' is not finite";
                        }));
  const auto norm = [](const SegmentHeader& h) { return h.scan.squared_norm; };
  // Bit by bit, as Exchange::gate() does; all NaNs of a scan are the same.
  if (differ(headers,
             [&](const SegmentHeader& h) { return std::bit_cast<std::uint64_t>(norm(h)); }))
    return disagreement(
        "the ranks do not have the same gradients: their squared norm is " +
        list_values(headers,
                    [&](const SegmentHeader& h) { return grouping::exact_text(norm(h)); }) +
        "; average them before every step, over all ranks of the optimizer");
  return std::nullopt;
}

}  // namespace shampoo
