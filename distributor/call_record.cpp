// SPDX-License-Identifier: Apache-2.0
#include "distributor/call_record.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "distributor/rank_list.h"

namespace shampoo {

std::string CollectiveCall::text() const {
  std::string text(operation);
  if (bytes > 0) text += " of " + std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  text += " (collective " + std::to_string(ticket);
  if (!caller.empty()) text += ", " + std::string(caller);
  if (caller_number > 0) text += " " + std::to_string(caller_number);
  return text + ")";
}

CallRecord::CallRecord(int from_rank, const CollectiveCall& call)
    : ticket(call.ticket), signature(call.signature), rank(from_rank) {
  const std::string full = call.text();
  full.copy(text.data(), text.size() - 1);
}

std::optional<CallRecord> CallRecord::of(const std::string& bytes) {
  if (bytes.size() != sizeof(CallRecord)) return std::nullopt;
  CallRecord record;
  std::memcpy(static_cast<void*>(&record), bytes.data(), sizeof(record));
  record.text.back() = 0;
  return record;
}

std::string describe_mismatch(std::span<const CallRecord> records) {
  struct Group {
    CallRecord call;
    std::vector<int> ranks;
  };
  std::vector<Group> groups;
  for (const CallRecord& record : records) {
    auto same = std::ranges::find_if(
        groups, [&](const Group& group) { return group.call.matches(record); });
    if (same == groups.end()) same = groups.insert(same, {record, {}});
    same->ranks.push_back(record.rank);
  }
  if (groups.size() < 2) return {};
  // Those that few ranks are in come first: they are likely to be the wrong ones.
  std::ranges::stable_sort(groups, {}, [](const Group& group) { return group.ranks.size(); });
  std::string text = "the ranks are not in the same call: ";
  const char* separator = "";
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    const std::string call = group->call.ticket == 0 ? "no collective" : group->call.text.data();
    text += std::exchange(separator, ", ") + rank_list(group->ranks) +
            (group->ranks.size() == 1 ? " is in " : " are in ") + call;
    if (std::any_of(groups.begin(), group,
                    [&](const Group& other) { return other.call.text == group->call.text; }))
      text += " with other sizes";
  }
  return text;
}

std::string describe_counts(int from, std::int64_t sent, int to, std::int64_t expected) {
  return "rank " + std::to_string(from) + " sends " + std::to_string(sent) + " bytes to rank " +
         std::to_string(to) + ", which expects " + std::to_string(expected);
}

}  // namespace shampoo
