// SPDX-License-Identifier: Apache-2.0
#include "shampoo/schedules/scheduled_rates.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "grouping/number_text.h"
#include "shampoo/validation/rate_ranges.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const Group& group, std::string_view rate, const std::string& what) {
  throw std::invalid_argument(group.title() + ": schedules: " + std::string(rate) + ": " + what);
}

double base_of(const Group& group, const std::string& rate) {
  std::optional<double> base;
  try {
    base = RateField(rate).of(group.base_rates);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(group.title() + ": schedules: " + error.what());
  }
  if (!base) fail(group, rate, "is not set in base_rates: there is no value to start from");
  return *base;
}

void require_read(const Group& group, std::string_view rate) {
  if (!RateRanges(group.recipe()).reads(rate))
    fail(group, rate, "is not read by the recipe of the group");
}

}  // namespace

void ScheduledRates::set(std::span<const std::unique_ptr<Group>> groups, std::int64_t step) {
  groups_.resize(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    update_entries(groups, g);
    for (Entry& entry : groups_[g]) {
      const std::optional<double> found = RateField(entry.rate).of(groups[g]->rates);
      if (entry.last && found != entry.last)
        fail(*groups[g], entry.rate,
             "the step sets rates." + entry.rate +
                 ", which the caller has changed; give base_rates." + entry.rate +
                 " another value or the rate another schedule, or erase this one");
      entry.value = entry.cursor.at(step);
      if (!std::isfinite(entry.value))
        fail(*groups[g], entry.rate,
             "must be finite, got " + grouping::exact_text(entry.value) + " for step " +
                 std::to_string(step));
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (Entry& entry : groups_[g]) {
      RateField(entry.rate).set(groups[g]->rates, entry.value);
      entry.last = entry.value;
    }
}

void ScheduledRates::forget_values() {
  for (std::vector<Entry>& entries : groups_)
    for (Entry& entry : entries) entry.last.reset();
}

/// One entry for each schedule of the group, as it is now. One that has another base or schedule
/// than before takes the rate over, whatever the caller has left in it.
void ScheduledRates::update_entries(std::span<const std::unique_ptr<Group>> groups,
                                    std::size_t index) {
  const Group& group = *groups[index];
  std::vector<Entry>& entries = groups_[index];
  std::size_t e = 0;
  for (const auto& [rate, schedule] : group.schedules) {
    const double base = base_of(group, rate);
    while (e < entries.size() && entries[e].rate < rate)
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(e));
    if (e == entries.size() || entries[e].rate != rate) {
      require_read(group, rate);
      entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(e),
                     Entry{rate, cursor_of(schedule, base)});
    } else if (!entries[e].cursor.follows(schedule, base)) {
      entries[e] = {rate, cursor_of(schedule, base)};
    }
    ++e;
  }
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(e), entries.end());
}

/// One that has come as far already, or a new one.
ScheduleCursor ScheduledRates::cursor_of(const Schedule& schedule, double base) const {
  for (const std::vector<Entry>& entries : groups_)
    for (const Entry& entry : entries)
      if (entry.cursor.follows(schedule, base)) return entry.cursor;
  return {schedule, base};
}

void check_schedules(const Group& group) {
  for (const auto& [rate, schedule] : group.schedules) {
    base_of(group, rate);
    require_read(group, rate);
  }
}

}  // namespace shampoo
