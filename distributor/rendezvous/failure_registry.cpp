// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/failure_registry.h"

#include <algorithm>

#include "distributor/rank_list.h"
#include "distributor/rendezvous/store_gather.h"
#include "distributor/system/failure_timeout.h"

namespace shampoo {

using std::chrono::milliseconds;

void FailureRegistry::barrier(milliseconds deadline) {
  const auto end = BoundedStore::Clock::now() + deadline;
  BoundedStore store(store_, end);
  StoreGather gather(store, prefix_ + "/barrier", size_, StoreGather::none);
  gather.claim(rank_, "here");
  gather.arrive();
  GatherResult result = gather.wait(end);
  if (!result.ready()) {
    const std::string ranks = rank_list(result.missing_ranks);
    throw CommunicationError(ranks + " did not come within " + seconds_text(deadline),
                             std::move(result.missing_ranks));
  }
  gather.remove_keys();
}

std::string FailureRegistry::remote_abort_reason() noexcept {
  try {
    return BoundedStore(store_, BoundedStore::Clock::now()).get(abort_key()).value_or("");
  } catch (...) {  // irrelevant to ranks that can communicate without the store
    return {};
  }
}

void FailureRegistry::publish_abort(std::string_view reason, milliseconds deadline) noexcept {
  try {
    const std::string text = "rank " + std::to_string(rank_) + " aborted: " + std::string(reason);
    store_->within(failure_detection_timeout(deadline), [&](Store& store) {
      store.set(abort_key(), text);
      StoreGather(store, failures_prefix(), size_).publish({.error = text});
    });
  } catch (...) {  // the others see that connections are closed, but not why
  }
}

CommunicationError FailureRegistry::diagnose(const std::string& failure,
                                             milliseconds deadline) noexcept {
  try {
    const auto end = BoundedStore::Clock::now() + failure_detection_timeout(deadline);
    return find_missing(failure, end);
  } catch (const std::exception& error) {
    return CommunicationError(failure + "; nor does the store respond, whose process" +
                              (server_.empty() ? "" : ", " + server_ + ",") +
                              " may be gone: " + error.what());
  }
}

CommunicationError FailureRegistry::find_missing(const std::string& failure,
                                                 BoundedStore::Clock::time_point end) {
  BoundedStore store(store_, end);
  StoreGather gather(store, failures_prefix(), size_);
  gather.claim(rank_, failure.empty() ? "unknown" : failure);
  gather.arrive();
  GatherResult result = gather.wait(end);
  if (!result.error.empty()) return CommunicationError(result.error);
  // A rank that fails later than the others' timeout responds all the same.
  std::erase(result.missing_ranks, rank_);
  if (result.missing_ranks.empty()) return CommunicationError(failure + "; all ranks answer");
  const std::string ranks = rank_list(result.missing_ranks);
  return CommunicationError(ranks + " did not answer; this rank failed with: " + failure,
                            std::move(result.missing_ranks));
}

}  // namespace shampoo
