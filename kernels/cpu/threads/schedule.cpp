// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/threads/schedule.h"

#include <algorithm>

namespace shampoo::kernels {

void Schedule::add(std::size_t group, std::int64_t members, double cost) {
  if (members == 0) return;
  entries_.push_back({group, members, 0, cost});
  tasks_ += members;
  cost_ += cost * static_cast<double>(members);
}

void Schedule::sort() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.group < b.group;
  });
  std::int64_t task = 0;
  for (Entry& entry : entries_) {
    entry.first_task = task;
    task += entry.members;
  }
}

Schedule::Task Schedule::at(std::int64_t task) const {
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), task,
                       [](std::int64_t t, const Entry& entry) { return t < entry.first_task; });
  const Entry& entry = *(after - 1);
  return {entry.group, task - entry.first_task};
}

}  // namespace shampoo::kernels
