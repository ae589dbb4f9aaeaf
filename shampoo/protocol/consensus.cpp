// SPDX-License-Identifier: Apache-2.0
#include "shampoo/protocol/consensus.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "distributor/exchange.h"
#include "distributor/rank_list.h"
#include "distributor/serialization.h"
#include "distributor/text_consensus.h"
#include "grouping/hash.h"

namespace shampoo {

namespace {

/// "7 on rank 1, 8 on ranks 0 and 2"
template <typename Say>
std::string say_each(std::span<const SegmentHeader> headers, const Say& say) {
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t r = 0; r < headers.size(); ++r)
    ranks[say(headers[r])].push_back(static_cast<int>(r));
  std::string text;
  for (const auto& [saying, who] : ranks)
    text += (text.empty() ? "" : ", ") + saying + " on " + rank_list(who);
  return text;
}

template <typename Value>
bool differ(std::span<const SegmentHeader> headers, const Value& value) {
  return std::ranges::any_of(
      headers, [&](const SegmentHeader& h) { return value(h) != value(headers.front()); });
}

std::string say_call(std::int64_t step) {
  switch (step) {
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
    default:
      return "step " + std::to_string(step);
  }
}

bool is_unfit(const SegmentHeader& header) {
  return header.scan.first_bad == kernels::needs_refresh;
}

TransferableError disagreement(const std::string& message) {
  return {TransferableError::Kind::communication, message};
}

}  // namespace

std::uint64_t Consensus::hash_of(const std::string& text) { return grouping::hash(text); }

StepDecision Consensus::rule_on(std::int64_t call, std::string_view subject,
                                const std::string& text,
                                const std::optional<TransferableError>& own) {
  Exchange vote(backend_, communicator_,
                std::vector<std::int64_t>(static_cast<std::size_t>(communicator_.size()),
                                          std::int64_t{sizeof(SegmentHeader)}));
  vote.write({.step = call,
              .plan = hash_of(text),
              .status = own ? RankStatus::skipped : RankStatus::none});
  vote.run();
  return decide(vote.headers(), own, {.subject = subject, .plan = [&] { return text; }}, true);
}

bool Consensus::everywhere(std::int64_t call, bool holds) {
  if (alone()) return holds;
  Exchange vote(backend_, communicator_,
                std::vector<std::int64_t>(static_cast<std::size_t>(communicator_.size()),
                                          std::int64_t{sizeof(SegmentHeader)}));
  vote.write({.step = call, .presence = holds ? 1u : 0u});
  vote.run();
  const std::span<const SegmentHeader> headers = vote.headers();
  if (const std::optional<TransferableError> apart = find_separation(headers)) rethrow(*apart);
  return std::ranges::all_of(headers, [](const SegmentHeader& h) { return h.presence == 1; });
}

StepDecision Consensus::decide(std::span<const SegmentHeader> headers,
                               const std::optional<TransferableError>& own,
                               const Diagnostics& diagnostics, bool vote) {
  StepDecision decision{.verdict = headers[communicator_.rank()].scan};
  const auto any = [&](RankStatus finding) {
    return std::ranges::find(headers, finding, &SegmentHeader::status) != headers.end();
  };
  if (std::optional<TransferableError> apart = find_separation(headers)) {
    decision.fault = std::move(apart);
    decision.diverged = true;
    return decision;
  }
  if (any(RankStatus::skipped) || any(RankStatus::failed)) {
    const bool all_refused = std::ranges::all_of(
        headers, [](const SegmentHeader& h) { return h.status == RankStatus::skipped; });
    decision.fault = gather_faults(own);
    decision.diverged = !vote && !all_refused;
    return decision;
  }

  if (std::optional<TransferableError> unfit = find_unfit(headers)) {
    decision.fault = std::move(unfit);
    decision.diverged = !vote && !std::ranges::all_of(headers, is_unfit);
    return decision;
  }
  decision.fault = find_difference(headers, diagnostics);
  if (!decision.fault && !vote) decision.fault = compare_gradients(headers, diagnostics);
  decision.diverged = decision.fault && !vote;
  if (decision.fault) return decision;
  // The first rank that refuses speaks for all.
  const auto refuses =
      std::ranges::find(headers, 0, [](const SegmentHeader& h) { return h.scan.proceed; });
  if (refuses != headers.end()) decision.verdict = refuses->scan;
  if (any(RankStatus::deferred_error)) {
    decision.fault = gather_faults(own);
    decision.after_apply = true;
  }
  return decision;
}

/// Ranks whose step does not do what was prepared.
std::optional<TransferableError> Consensus::find_unfit(std::span<const SegmentHeader> headers) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < headers.size(); ++r)
    if (is_unfit(headers[r])) ranks.push_back(static_cast<int>(r));
  if (ranks.empty()) return std::nullopt;
  const bool all = ranks.size() == headers.size();
  return TransferableError{TransferableError::Kind::logic,
                           (all ? "" : rank_list(ranks) + ": ") + unfit_text};
}

TransferableError Consensus::gather_faults(const std::optional<TransferableError>& own) {
  const std::vector<std::string> texts =
      gather_texts(backend_, communicator_, own ? serialize(*own) : std::string());
  TransferableError joined{TransferableError::Kind::other, {}};
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t r = 0; r < texts.size(); ++r)
    if (!texts[r].empty()) ranks[texts[r]].push_back(static_cast<int>(r));
  for (const auto& [text, who] : ranks) {
    const TransferableError fault = deserialize<TransferableError>(text);
    if (who.size() == texts.size()) return fault;
    joined.kind = fault.kind;
    joined.code = fault.code;
    joined.message += (joined.message.empty() ? "" : "; ") + rank_list(who) + ": " + fault.message;
  }
  return joined;
}

/// Ranks that can no longer be brought together.
std::optional<TransferableError> Consensus::find_separation(
    std::span<const SegmentHeader> headers) {
  if (differ(headers, [](const SegmentHeader& h) { return h.magic; }))
    return disagreement("the ranks have versions of the library that do not fit");
  if (differ(headers, [](const SegmentHeader& h) { return h.step; }))
    return disagreement("the ranks are not at the same call: " +
                        say_each(headers, [](const SegmentHeader& h) { return say_call(h.step); }));
  if (differ(headers, [](const SegmentHeader& h) { return h.taken; }))
    return disagreement(
        "the ranks have not taken the same number of steps: " +
        say_each(headers, [](const SegmentHeader& h) { return std::to_string(h.taken); }));
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
    return disagreement("the ranks do not have the same gradients: " +
                        lines(diagnostics.presence()));
  return std::nullopt;
}

std::optional<TransferableError> Consensus::compare_gradients(
    std::span<const SegmentHeader> headers, const Diagnostics& diagnostics) {
  if (differ(headers, [](const SegmentHeader& h) { return h.scan.first_bad; }))
    return disagreement("the ranks do not have the same gradients: " +
                        say_each(headers, [&](const SegmentHeader& h) {
                          const std::string_view name = diagnostics.name(h.scan.first_bad);
                          return name.empty() ? std::string("all are finite")
                                              : "that of '" + std::string(name) + "' is not finite";
                        }));
  const auto norm = [](const SegmentHeader& h) { return h.scan.squared_norm; };
  // Bit by bit, as Exchange::gate() does; all NaNs of a scan are the same.
  if (differ(headers,
             [&](const SegmentHeader& h) { return std::bit_cast<std::uint64_t>(norm(h)); }))
    return disagreement(
        "the ranks do not have the same gradients: their norm is " +
        say_each(headers,
                 [&](const SegmentHeader& h) { return std::to_string(std::sqrt(norm(h))); }) +
        "; average them before every step");
  return std::nullopt;
}

}  // namespace shampoo
