// SPDX-License-Identifier: Apache-2.0
#include "shampoo/protocol/readiness_vote.h"

#include <algorithm>
#include <utility>

namespace shampoo {

namespace {

SegmentHeader header_of(std::int64_t call, const Ballot& ballot) {
  return {.step = call,
          .plan = ballot.numbers[0],
          .rates = ballot.numbers[1],
          .presence = ballot.ready ? 1u : 0u,
          .status = ballot.failed ? RankStatus::skipped : RankStatus::none};
}

Ballot ballot_of(const SegmentHeader& header) {
  return {header.presence == 1, header.status == RankStatus::skipped, {header.plan, header.rates}};
}

}  // namespace

ReadinessVote::ReadinessVote(kernels::Backend& backend, Communicator& communicator)
    : backend_(backend),
      communicator_(communicator),
      ballots_(static_cast<std::size_t>(communicator.size())) {
  if (communicator.size() == 1) return;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  host_ = kernels::HostBuffer(backend, ranks * sizeof(SegmentHeader));
  headers_ = {static_cast<SegmentHeader*>(host_.data()), ranks};
  mark_ = backend.make_mark();
  exchange_.emplace(backend, communicator,
                    std::vector<std::int64_t>(ranks, std::int64_t{sizeof(SegmentHeader)}));
}

void ReadinessVote::cast(std::int64_t call, const Ballot& own) {
  cast_ = true;
  if (!exchange_) {
    ballots_.front() = own;
    return;
  }
  exchange_->write(header_of(call, own));
  exchange_->run();
  exchange_->download_headers(headers_.data());
  mark_->set();
}

std::span<const Ballot> ReadinessVote::collect() {
  if (!std::exchange(cast_, false) || !exchange_) return ballots_;
  mark_->wait();
  communicator_.check();
  if (const auto error = Consensus::find_desynchronization(headers_)) rethrow(*error);
  std::ranges::transform(headers_, ballots_.begin(), ballot_of);
  return ballots_;
}

}  // namespace shampoo
