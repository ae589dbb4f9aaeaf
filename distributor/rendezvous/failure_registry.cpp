// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/failure_registry.h"

#include <algorithm>
#include <array>
#include <new>

#include "distributor/call_record.h"
#include "distributor/rank_list.h"
#include "distributor/rendezvous/store_gather.h"
#include "distributor/serialization.h"
#include "distributor/system/failure_timeout.h"

namespace shampoo {

using std::chrono::milliseconds;

namespace {

/// What a rank publishes about its failure.
struct Failure {
  std::string message, call;  ///< `call`: CallRecord::bytes()
};

template <typename Visitor>
void for_each_field(Visitor&& visit, Failure& failure) {
  visit("message", failure.message);
  visit("call", failure.call);
}

/// Empty if all ranks failed in the same collective.
std::string mismatch_of(const std::vector<std::string>& records) {
  std::vector<CallRecord> calls;
  for (const std::string& record : records)
    if (const auto call = CallRecord::of(deserialize<Failure>(record).call)) calls.push_back(*call);
  return describe_mismatch(calls);
}

}  // namespace

void FailureRegistry::barrier(milliseconds deadline) {
  const auto end = BoundedStore::Clock::now() + deadline;
  BoundedStore store(store_, end);
  StoreGather gather(store, prefix_ + "/barrier", size_, StoreGather::none);
  gather.claim(rank_, "here");
  gather.arrive();
  gather.wait(end).require_all_ranks(deadline);
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
    // Both at once: a thread that waits for keys lets others in only now and then.
    store_->within(failure_detection_timeout(deadline), [&](Store& store) {
      store.set(abort_key(), text);
      StoreGather(store, failures_prefix(), size_).publish({.error = text});
    });
  } catch (...) {  // the others see that connections are closed, but not why
  }
}

std::string FailureRegistry::enter_call(const CollectiveCall& call, milliseconds longest) noexcept {
  try {
    const CallRecord own(rank_, call);
    const std::string bytes = own.bytes();
    const std::string first = BoundedStore(store_, BoundedStore::Clock::now() + longest)
                                  .set_if_absent(call_key(call.ticket), bytes);
    if (first == bytes) {
      entered_ = call.ticket;
      return {};
    }
    const std::optional<CallRecord> other = CallRecord::of(first);
    return other ? describe_mismatch(std::array{*other, own}) : std::string();
  } catch (...) {  // found at the deadline
    return {};
  }
}

void FailureRegistry::leave_call() noexcept {
  try {
    if (entered_ > 0) BoundedStore(store_, BoundedStore::Clock::now()).remove(call_key(entered_));
  } catch (...) {  // what remains does no harm
  }
  entered_ = 0;
}

CommunicationError FailureRegistry::diagnose(const std::string& failure, milliseconds deadline,
                                             const CollectiveCall& call) {
  try {
    const auto end = BoundedStore::Clock::now() + failure_detection_timeout(deadline);
    return find_missing(failure, call, end);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return CommunicationError(failure + "; nor does the store respond, whose process" +
                              (server_.empty() ? "" : ", " + server_ + ",") +
                              " may be gone: " + error.what());
  }
}

CommunicationError FailureRegistry::find_missing(const std::string& failure,
                                                 const CollectiveCall& call,
                                                 BoundedStore::Clock::time_point end) {
  BoundedStore store(store_, end);
  StoreGather gather(store, failures_prefix(), size_,
                     [](GatherResult& all) { all.records = {mismatch_of(all.records)}; });
  store.set_if_absent(abort_key(), "rank " + std::to_string(rank_) + " failed: " + failure);
  gather.claim(rank_, serialize(Failure{failure, CallRecord(rank_, call).bytes()}));
  gather.arrive();
  GatherResult result = gather.wait(end);
  if (!result.error.empty()) return CommunicationError(result.error);
  // A rank that fails later than the others' timeout responds all the same.
  std::erase(result.missing_ranks, rank_);
  if (result.missing_ranks.empty()) {
    const std::string mismatch = result.records.empty() ? "" : result.records.front();
    return CommunicationError(mismatch.empty() ? failure + "; all ranks answer" : mismatch);
  }
  const std::string unanswered = unanswered_text(result.missing_ranks);
  return CommunicationError(unanswered + "; this rank failed with: " + failure,
                            std::move(result.missing_ranks));
}

}  // namespace shampoo
