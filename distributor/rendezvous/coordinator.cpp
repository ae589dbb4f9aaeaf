// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/coordinator.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "distributor/error.h"
#include "distributor/rank_list.h"

namespace shampoo::joining {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds longest_nap = 50ms;
/// Enough for a process that waits in the store to answer again.
constexpr std::chrono::milliseconds patience = 1s;
constexpr std::chrono::milliseconds longest_farewell = 3s;

}  // namespace

Coordinator::Coordinator(Store& store, const Hello& self, const AgreementOptions& options)
    : store_(store),
      keys_(options.job),
      self_(self),
      deadline_(options.deadline),
      place_(options.place.empty() ? store.description() : options.place),
      end_(options.begin + deadline_),
      seats_(self) {}

std::string Coordinator::run() {
  store_.set(keys_.hello(0), text_of(self_));
  begin_generation();
  while (true) {
    guard_seat();
    if (look_for_hellos()) nap_ = 1ms;
    look_for_answers();
    look_for_objection();
    const std::string misfit = seats_.misfit();
    if (!misfit.empty()) refuse(misfit);
    if (const auto conflict = seats_.conflict()) {
      if (conflict->proven) {
        refuse("two processes are rank " + std::to_string(conflict->one->hello.rank) + ": " +
               name_of(conflict->one->hello) + " and " + name_of(conflict->other->hello));
      }
      begin_generation();
    } else if (can_go()) {
      store_.set(keys_.verdict(generation_),
                 text_of({.kind = RendezvousResult::Kind::go, .nonces = seats_.nonces()}));
      return generation_;
    }
    if (Clock::now() >= end_) {
      next_hellos_ = next_answers_ = {};
      look_for_hellos();
      look_for_answers();
      const std::vector<int> missing = seats_.missing();
      refuse(rank_list(missing) + " did not come within " + seconds_text(deadline_) +
                 " to the store " + place_,
             missing);
    }
    wait_a_little();
  }
}

void Coordinator::begin_generation() {
  const std::string before = std::exchange(generation_, random_id());
  generation_began_ = Clock::now();
  seats_.begin_generation();
  store_.set(keys_.call(), generation_ + " " + std::to_string(self_.size));
  for (int rank = 0; rank < seats_.size(); ++rank) {
    for (const Candidate& candidate : seats_.candidates(rank)) invite(candidate);
  }
  // Wakes those who wait for the verdict.
  if (!before.empty()) store_.set(keys_.verdict(before), text_of(RendezvousResult{}));
  nap_ = 1ms;
}

void Coordinator::invite(const Candidate& candidate) {
  if (candidate.hello.nonce == self_.nonce) return;
  store_.set(keys_.invite(candidate.hello.nonce), generation_);
}

bool Coordinator::look_for_hellos() {
  const Clock::time_point begin = Clock::now();
  if (begin < next_hellos_) return false;
  std::string bell = store_.get(keys_.bell()).value_or("");
  if (bell == bell_) return false;
  bell_ = std::move(bell);
  bool found = false;
  for (int rank = 1; rank < seats_.size(); ++rank) {
    const auto text = store_.get(keys_.hello(rank));
    const auto hello = text ? hello_of(*text) : std::nullopt;
    if (!hello || hello->rank != rank || !seats_.put(rank, *hello)) continue;
    found = true;
    invite(seats_.candidates(rank).back());
  }
  // At most a third of the time goes here, however many ranks come one by one.
  next_hellos_ = Clock::now() + 2 * (Clock::now() - begin);
  return found;
}

void Coordinator::guard_seat() {
  if (Clock::now() < next_guard_) return;
  next_guard_ = Clock::now() + 200ms;
  answer_rival();
  const auto text = store_.get(keys_.hello(0));
  if (text && *text == text_of(self_)) return;
  const auto hello = text ? hello_of(*text) : std::nullopt;
  if (hello && hello->rank == 0 && seats_.put(0, *hello)) {
    generation_began_ = Clock::now();
    invite(seats_.candidates(0).back());
  }
  store_.set(keys_.hello(0), text_of(self_));
}

void Coordinator::answer_rival() {
  const auto asked = store_.get(keys_.invite(self_.nonce));
  if (!asked || !is_id(*asked)) return;
  if (*asked != rival_) {
    rival_ = *asked;
    store_.set(keys_.answer(rival_, self_.nonce), text_of(self_));
  }
  const auto text = store_.get(keys_.verdict(rival_));
  const auto verdict = text ? verdict_of(*text) : std::nullopt;
  if (!verdict || verdict->kind != RendezvousResult::Kind::refuse) return;
  store_.set(keys_.told(rival_, self_.nonce), "");
  refuse(verdict->reason, verdict->missing);
}

void Coordinator::look_for_answers() {
  if (Clock::now() < next_answers_) return;
  next_answers_ = Clock::now() + 500ms;
  for (int rank = 0; rank < seats_.size(); ++rank) {
    for (Candidate& candidate : seats_.candidates(rank)) {
      if (candidate.answered) continue;
      const auto text = store_.get(keys_.answer(generation_, candidate.hello.nonce));
      const auto answer = text ? hello_of(*text) : std::nullopt;
      candidate.answered = answer && answer->nonce == candidate.hello.nonce;
      if (candidate.answered) candidate.hello = *answer;
    }
  }
}

void Coordinator::look_for_objection() {
  const auto text = store_.get(keys_.objection(generation_));
  const auto hello = text ? hello_of(*text) : std::nullopt;
  if (!hello) return;
  const std::string reason = misfit(self_, *hello);
  if (!reason.empty()) {
    objectors_.push_back(hello->nonce);
    refuse(reason);
  }
  // Another process writes over this one's hello.
  if (hello->rank > 0 && hello->rank < seats_.size() && seats_.put(hello->rank, *hello)) {
    invite(seats_.candidates(hello->rank).back());
  }
}

void Coordinator::wait_a_little() {
  std::vector<std::string> awaited;
  for (const int rank : seats_.missing()) {
    const Candidate* current = seats_.current(rank);
    if (current == nullptr) break;
    awaited.push_back(keys_.answer(generation_, current->hello.nonce));
  }
  if (awaited.empty() || !seats_.silent().empty()) {
    std::this_thread::sleep_for(nap_);
  } else if (store_.wait(awaited, nap_)) {
    next_answers_ = {};
    // Garbage in the place of an answer must not make us spin.
    std::this_thread::sleep_for(nap_ / 10);
  }
  nap_ = std::min(2 * nap_, longest_nap);
}

bool Coordinator::can_go() {
  if (!seats_.complete()) return false;
  if (seats_.doubtful() && Clock::now() < generation_began_ + patience) return false;
  // Somebody may have come while we looked at the others.
  next_hellos_ = next_guard_ = {};
  const bool news = look_for_hellos();
  guard_seat();
  return !news && seats_.complete() &&
         !(seats_.doubtful() && Clock::now() < generation_began_ + patience);
}

void Coordinator::refuse(const std::string& reason, const std::vector<int>& missing) {
  store_.set(
      keys_.verdict(generation_),
      text_of({.kind = RendezvousResult::Kind::refuse, .reason = reason, .missing = missing}));
  // Where this process serves the store, the others can hear the reason only while it stays.
  const Clock::time_point farewell = Clock::now() + longest_farewell;
  while (Clock::now() < farewell && !all_told(missing)) {
    look_for_hellos();
    std::this_thread::sleep_for(longest_nap / 5);
  }
  throw CommunicationError("join: " + reason, missing);
}

bool Coordinator::all_told(const std::vector<int>& missing) {
  std::vector<std::string> told;
  for (const std::string& nonce : objectors_) told.push_back(keys_.told(generation_, nonce));
  for (int rank = 0; rank < seats_.size(); ++rank) {
    const Candidate* current = seats_.current(rank);
    const bool awaited = rank != 0 && std::ranges::find(missing, rank) == missing.end();
    if (awaited && current == nullptr) return false;
    for (const Candidate& candidate : seats_.candidates(rank)) {
      const bool expected = candidate.answered || (awaited && &candidate == current);
      if (!expected || candidate.hello.nonce == self_.nonce) continue;
      told.push_back(keys_.told(generation_, candidate.hello.nonce));
    }
  }
  return told.empty() || store_.wait(told, 0ms);
}

}  // namespace shampoo::joining
