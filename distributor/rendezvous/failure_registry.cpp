// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/failure_registry.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "distributor/rank_list.h"
#include "distributor/system/failure_timeout.h"

namespace shampoo {

using std::chrono::milliseconds;

namespace {

/// For an answer of a store that is alive, when time is up.
constexpr milliseconds moment{250};

}  // namespace

std::string FailureRegistry::key(const char* kind, int rank) const {
  return prefix_ + "/" + kind + "/" + std::to_string(rank);
}

void FailureRegistry::arrive(const std::string& host, milliseconds deadline) {
  const auto end = Clock::now() + deadline;
  store_->with([&](Store& store) { store.set(key("arrived", rank_), host); });
  std::vector<std::string> keys;
  for (int r = 0; r < size_; ++r) keys.push_back(key("arrived", r));
  while (!store_->wait(keys, milliseconds(50))) {
    const auto aborted = store_->with([&](Store& store) { return store.get(abort_key()); });
    if (aborted) throw CommunicationError(*aborted);
    if (Clock::now() < end) continue;
    std::vector<int> missing;
    for (int r = 0; r < size_; ++r)
      if (!store_->with([&](Store& store) { return store.get(keys[r]); })) missing.push_back(r);
    if (missing.empty()) return;
    const std::string text = rank_list(missing) + " did not come within " + seconds_text(deadline);
    throw CommunicationError(text, std::move(missing));
  }
}

int FailureRegistry::ranks_before_on(const std::string& host) {
  int before = 0;
  for (int r = 0; r < rank_; ++r)
    before += store_->with([&](Store& store) { return store.get(key("arrived", r)); }) == host;
  return before;
}

std::string FailureRegistry::heard() noexcept {
  try {
    return store_->with([&](Store& store) { return store.get(abort_key()); }).value_or("");
  } catch (...) {  // of no meaning for ranks that can talk without it
    return {};
  }
}

void FailureRegistry::post_abort(std::string_view reason, milliseconds deadline) noexcept {
  try {
    const std::string text = "rank " + std::to_string(rank_) + " aborted: " + std::string(reason);
    store_->within(grace_of(deadline), [&](Store& store) { store.set(abort_key(), text); });
  } catch (...) {  // the others learn that the connections are closed, not why
  }
}

CommunicationError FailureRegistry::judge(const std::string& fault,
                                          milliseconds deadline) noexcept {
  try {
    return find_missing(fault, Clock::now() + grace_of(deadline));
  } catch (const std::exception& error) {
    return CommunicationError(fault + "; nor does the store answer, whose process" +
                              (server_.empty() ? "" : ", " + server_ + ",") +
                              " may be gone: " + error.what());
  }
}

template <typename Use>
auto FailureRegistry::ask(Clock::time_point end, const Use& use) {
  const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
  return store_->within(std::max(left, moment), use);
}

CommunicationError FailureRegistry::find_missing(const std::string& fault, Clock::time_point end) {
  ask(end, [&](Store& store) { store.set(key("fault", rank_), fault); });
  std::vector<std::string> keys;
  for (int r = 0; r < size_; ++r) keys.push_back(key("fault", r));
  for (;;) {
    const bool all = ask(end, [&](Store& store) { return store.wait(keys, milliseconds(20)); });
    const auto aborted = ask(end, [&](Store& store) { return store.get(abort_key()); });
    if (aborted) return CommunicationError(*aborted);
    if (all) return CommunicationError(fault + "; all ranks answer");
    if (Clock::now() >= end) break;
  }
  std::vector<int> missing;
  for (int r = 0; r < size_; ++r)
    if (!ask(end, [&](Store& store) { return store.get(keys[r]); })) missing.push_back(r);
  const std::string text = rank_list(missing) + " did not answer; this rank met: " + fault;
  return CommunicationError(text, std::move(missing));
}

}  // namespace shampoo
