// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/member.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "distributor/error.h"
#include "distributor/rank_list.h"

namespace shampoo::joining {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds longest_nap = 2s;

}  // namespace

Member::Member(Store& store, Hello self, const AgreementOptions& options)
    : store_(store),
      keys_(options.job),
      self_(std::move(self)),
      deadline_(options.deadline),
      place_(options.place.empty() ? store.description() : options.place),
      end_(options.begin + deadline_ + farewell_of(deadline_)) {}

std::string Member::run() {
  try {
    say_hello();
    wait_for_verdict();
  } catch (const CommunicationError& error) {
    // Whom nobody has asked, and who has said nothing, can only have met a fault of the store.
    if (generation_.empty()) throw StoreLost(error.what());
    throw;
  }
  if (!agreed_) give_up();
  return generation_;
}

void Member::wait_for_verdict() {
  std::chrono::milliseconds nap = 100ms;
  while (!agreed_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
    if (left <= 0ms) return;
    const std::array waited = {generation_.empty() ? keys_.invite(self_.nonce)
                                                   : keys_.verdict(generation_)};
    const bool woken = store_.wait(waited, std::min(nap, left));
    const bool news = look_at_verdict() || look_at_invitation();
    if (news) continue;
    // What lies there is not meant for us, and would end every wait at once.
    if (woken) std::this_thread::sleep_for(std::min(nap, left));
    defend_hello();
    if (!invited_) check_size();
    nap = std::min(2 * nap, longest_nap);
  }
}

void Member::say_hello() {
  store_.set(keys_.hello(self_.rank), text_of(self_));
  store_.set(keys_.bell(), random_id());
}

bool Member::look_at_verdict() {
  if (generation_.empty()) return false;
  const auto text = store_.get(keys_.verdict(generation_));
  const auto verdict = text ? verdict_of(*text) : std::nullopt;
  if (!verdict || verdict->kind == RendezvousResult::Kind::again) return false;
  accept(*verdict);
  return true;
}

bool Member::look_at_invitation() {
  const auto text = store_.get(keys_.invite(self_.nonce));
  if (!text || !is_id(*text) || *text == generation_) return false;
  // A verdict that is older than this invitation counts.
  if (look_at_verdict()) return true;
  generation_ = *text;
  invited_ = true;
  store_.set(keys_.answer(generation_, self_.nonce), text_of(self_));
  return true;
}

void Member::defend_hello() {
  const auto text = store_.get(keys_.hello(self_.rank));
  if (text && *text == text_of(self_)) return;
  say_hello();
  // Another process may write over it just after us, each time: then rank 0 would see it only.
  if (invited_ || !text || !hello_of(*text)) return;
  const std::string call = undecided_call();
  if (!call.empty()) object(call.substr(0, 32));
}

void Member::check_size() {
  const std::string call = undecided_call();
  if (call.empty() || call.substr(33) == std::to_string(self_.size)) return;
  generation_ = call.substr(0, 32);
  object(generation_);
}

std::string Member::undecided_call() {
  const auto text = store_.get(keys_.call());
  if (!text || text->size() < 34 || !is_id(text->substr(0, 32))) return {};
  // What has been decided already, perhaps long ago, is not about us.
  if (store_.get(keys_.verdict(text->substr(0, 32)))) return {};
  return *text;
}

void Member::object(const std::string& generation) {
  store_.set(keys_.objection(generation), text_of(self_));
}

void Member::accept(const RendezvousResult& verdict) {
  if (verdict.kind == RendezvousResult::Kind::refuse) {
    store_.set(keys_.told(generation_, self_.nonce), "");
    throw CommunicationError("join: " + verdict.reason, verdict.missing);
  }
  const auto rank = static_cast<std::size_t>(self_.rank);
  if (rank >= verdict.nonces.size() || verdict.nonces[rank] != self_.nonce) {
    throw CommunicationError("join: " + name_of(self_) +
                             " is not needed: another process has taken part as this rank");
  }
  agreed_ = true;
}

void Member::give_up() {
  std::vector<int> missing;
  if (!invited_) missing.push_back(0);
  for (int rank = 1; rank < self_.size; ++rank) {
    if (!store_.get(keys_.hello(rank))) missing.push_back(rank);
  }
  std::string text = "join: " + name_of(self_) + " waited " + seconds_text(deadline_) +
                     " at the store " + place_ + ": ";
  if (missing.empty()) {
    text += "rank 0 asked for it, but did not decide";
  } else {
    text += rank_list(missing) + " did not come";
  }
  throw CommunicationError(text, missing);
}

}  // namespace shampoo::joining
