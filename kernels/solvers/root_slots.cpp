// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/root_slots.h"

#include <algorithm>
#include <tuple>

namespace shampoo::kernels {

void RootSlots::reserve(Columns& columns, std::span<const RootJob> all) {
  std::vector<RootJob> order(all.begin(), all.end());
  std::ranges::stable_sort(order, [](const RootJob& i, const RootJob& j) {
    return std::tuple(i.exponent, -i.side) < std::tuple(j.exponent, -j.side);
  });
  for (const RootJob& job : order) {
    if (rows_.empty() || rows_.back().exponent != job.exponent || rows_.back().side != job.side)
      rows_.push_back({.exponent = job.exponent, .side = job.side, .first = any_.size()});
    ++rows_.back().size;
    any_.push_back(job.pair);
  }
  row_of_.resize(all.size());
  arrays_ = columns.add<void*>(all.size());
  scales_ = columns.add<double>(all.size());
  epsilons_ = columns.add<double>(all.size());
  active_ = columns.add<std::uint8_t>(all.size());
}

RootSlots::Rows& RootSlots::rows_of(const RootJob& job) {
  return *std::ranges::find_if(rows_, [&](const Rows& rows) {
    return rows.exponent == job.exponent && rows.side == job.side;
  });
}

void RootSlots::place(std::span<const RootJob> jobs) {
  std::ranges::copy(any_, arrays_.host().begin());
  std::ranges::fill(active_.host(), std::uint8_t{0});
  for (Rows& rows : rows_) rows.placed = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    Rows& rows = rows_of(jobs[j]);
    const std::size_t row = rows.first + rows.placed++;
    row_of_[j] = row;
    arrays_[row] = jobs[j].pair;
    scales_[row] = jobs[j].scale;
    epsilons_[row] = jobs[j].epsilon;
    active_[row] = 1;
  }
}

}  // namespace shampoo::kernels
