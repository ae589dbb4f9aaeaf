// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "distributor/store/store.h"

namespace shampoo {

/// Outcome of a gather, the same on all ranks: a record per rank, or the reason why there are none.
struct GatherResult {
  std::string error = {};                 ///< error of the rank that ended the gather; empty: none
  std::vector<int> missing_ranks = {};    ///< ranks that had not arrived at the deadline
  std::vector<std::string> records = {};  ///< by rank, or what StoreGather::Digest made of them

  bool ready() const { return error.empty() && missing_ranks.empty(); }
  /// Throws CommunicationError that names the missing ranks, if any. `deadline`: what they had.
  void require_all_ranks(std::chrono::milliseconds deadline) const;
};

template <typename Visitor>
void for_each_field(Visitor&& visit, GatherResult& result) {
  visit("error", result.error);
  visit("missing_ranks", result.missing_ranks);
  visit("records", result.records);
}

/// Gathers one record per rank through a store, below a prefix of its own:
///
///     <prefix>/rank/<r>   record of rank r
///     <prefix>/arrived    number of ranks that have arrived
///     <prefix>/result     GatherResult; the only key that ranks wait for
///     <prefix>/expired    number of ranks that have reached the deadline
///     <prefix>/read       number of ranks that have read the result
///     <prefix>/all_read   there once those that wait_for_readers() waits for have
///
/// The last rank to arrive publishes the records; the first one to reach the deadline publishes
/// which ranks are missing. So a rank sends a number of requests that does not depend on the number
/// of ranks, but for one rank, which sends two more per rank. The bytes of all ranks together grow
/// with the square of their number, unless there is a digest.
class StoreGather {
 public:
  using Clock = std::chrono::steady_clock;
  /// Makes of the records what all ranks need of them, or an error. Called on one rank.
  using Digest = std::function<void(GatherResult&)>;

  StoreGather(Store& store, std::string prefix, int size, Digest digest = {})
      : store_(store), prefix_(std::move(prefix)), size_(size), digest_(std::move(digest)) {}

  /// A digest that gives no rank any record: they read those that they need.
  static void none(GatherResult& result) { result.records.clear(); }

  /// Enters a rank's record, not empty. Returns the record of the first process that did.
  std::string claim(int rank, const std::string& record);
  /// Counts this process as arrived, after claim(). Repeating it is harmless.
  void arrive();
  /// Ends the gather with this result, unless there is one already.
  void publish(const GatherResult& result);
  bool has_result() { return store_.get(key("result")).has_value(); }
  /// Waits for the result, at most until `end` and a moment.
  GatherResult wait(Clock::time_point end);
  /// After wait(), before any remove_keys(): the record of a rank. Throws CommunicationError if
  /// there is none.
  std::string record(int rank);

  /// After wait(): the last rank to call it removes all keys.
  void remove_keys();
  /// After wait(): returns when `readers` processes have called it, at most after `longest`.
  void wait_for_readers(int readers, std::chrono::milliseconds longest);

 private:
  std::string key(const char* name) const { return prefix_ + "/" + name; }
  std::string rank_key(int rank) const { return prefix_ + "/rank/" + std::to_string(rank); }
  /// The result as of now: the records, or the missing ranks.
  GatherResult collect();

  Store& store_;
  std::string prefix_;
  int size_;
  Digest digest_;
};

}  // namespace shampoo
