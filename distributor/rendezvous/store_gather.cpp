// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/store_gather.h"

#include <array>

#include "distributor/communicator.h"
#include "distributor/rank_list.h"
#include "distributor/serialization.h"
#include "distributor/system/time_left.h"

namespace shampoo {

using std::chrono::milliseconds;

void GatherResult::require_all_ranks(milliseconds deadline) const {
  if (!missing_ranks.empty())
    throw CommunicationError(
        rank_list(missing_ranks) + " did not come within " + seconds_text(deadline), missing_ranks);
}

std::string StoreGather::claim(int rank, const std::string& record) {
  return store_.set_if_absent(rank_key(rank), record);
}

void StoreGather::arrive() {
  if (store_.add(key("arrived"), 1) < size_) return;
  const GatherResult result = collect();
  if (result.missing_ranks.empty()) publish(result);
}

void StoreGather::publish(const GatherResult& result) {
  store_.set_if_absent(key("result"), serialize(result));
}

GatherResult StoreGather::wait(Clock::time_point end) {
  constexpr milliseconds publishing_time{1'000};
  const std::array keys{key("result")};
  if (!store_.wait(keys, time_left(end))) {
    // The first rank to get here may die before it publishes.
    if (store_.add(key("expired"), 1) == 1 || !store_.wait(keys, publishing_time))
      publish(collect());
  }
  const auto result = store_.get(keys.front());
  if (!result) throw CommunicationError("the store has lost the key " + keys.front());
  return deserialize<GatherResult>(*result);
}

std::string StoreGather::record(int rank) {
  if (auto record = store_.get(rank_key(rank))) return *std::move(record);
  throw CommunicationError("the store has lost the key " + rank_key(rank));
}

GatherResult StoreGather::collect() {
  GatherResult result;
  for (int rank = 0; rank < size_; ++rank) {
    auto record = store_.get(rank_key(rank));
    if (!record) result.missing_ranks.push_back(rank);
    result.records.push_back(std::move(record).value_or(""));
  }
  if (!result.ready())
    result.records.clear();
  else if (digest_)
    digest_(result);
  return result;
}

void StoreGather::remove_keys() {
  if (store_.add(key("read"), 1) < size_) return;
  for (int rank = 0; rank < size_; ++rank) store_.remove(rank_key(rank));
  for (const char* name : {"arrived", "result", "expired", "read"}) store_.remove(key(name));
}

void StoreGather::wait_for_readers(int readers, milliseconds longest) {
  const std::array keys{key("all_read")};
  if (store_.add(key("read"), 1) >= readers) store_.set(keys.front(), "yes");
  if (longest.count() > 0) store_.wait(keys, longest);
}

}  // namespace shampoo
