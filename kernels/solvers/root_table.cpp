// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/root_table.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace shampoo::kernels {

namespace {

bool precedes(const RootTable::Row& a, const RootTable::Row& b) {
  return std::tuple(a.exponent, -a.side) < std::tuple(b.exponent, -b.side);
}

RootTable::Row row_for(const RootJob& job) { return {job.exponent, job.side}; }

}  // namespace

void RootTable::reserve(StagedArrays& staged, std::span<const RootJob> all) {
  std::vector<RootJob> order(all.begin(), all.end());
  std::ranges::stable_sort(order, precedes, row_for);
  for (const RootJob& job : order) {
    rows_.push_back(row_for(job));
    any_.push_back(job.pair);
  }
  row_of_.resize(all.size());
  placed_.resize(all.size());
  choose_usual(order);
  if (!all.empty()) layout_ = all.front().layout;
  arrays_ = staged.add<void*>(all.size());
  if (!all.empty() && all.front().basis != nullptr) bases_ = staged.add<void*>(all.size());
  if (!all.empty() && all.front().values != nullptr) values_ = staged.add<void*>(all.size());
  scales_ = staged.add<double>(all.size());
  epsilons_ = staged.add<double>(all.size());
  exponents_ = staged.add<double>(all.size());
  active_ = staged.add<std::uint8_t>(all.size());
}

void RootTable::choose_usual(std::span<const RootJob> order) {
  usual_.assign(order.size(), 0);
  std::map<std::int64_t, std::size_t> counts;  // of jobs of a phase, of one exponent and side
  std::size_t first = 0, most = 0;
  for (std::size_t row = 0; row < order.size(); ++row) {
    if (rows_[row] != rows_[first]) {
      counts.clear();
      first = row;
      most = 0;
    }
    most = std::max(most, ++counts[order[row].phase]);
    usual_[first + most - 1] = 1;
  }
}

void RootTable::place(std::span<const RootJob> jobs) {
  std::ranges::copy(any_, arrays_.host().begin());
  std::ranges::fill(active_.host(), std::uint8_t{0});
  std::ranges::fill(placed_, std::size_t{0});
  exceeds_usual_ = false;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const RootJob& job = jobs[j];
    const auto found = std::ranges::lower_bound(rows_, row_for(job), precedes);
    const auto first = static_cast<std::size_t>(found - rows_.begin());
    const std::size_t row = first + placed_[first]++;
    row_of_[j] = row;
    arrays_[row] = job.pair;
    if (bases_.size() != 0) bases_[row] = job.basis;
    if (values_.size() != 0) values_[row] = job.values;
    scales_[row] = job.scale;
    epsilons_[row] = job.epsilon;
    exponents_[row] = job.exponent;
    active_[row] = 1;
    exceeds_usual_ |= usual_[row] == 0;
  }
}

}  // namespace shampoo::kernels
