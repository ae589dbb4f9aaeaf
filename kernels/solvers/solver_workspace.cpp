// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/solver_workspace.h"

#include <algorithm>
#include <set>
#include <utility>

namespace shampoo::kernels {

namespace {

/// Matrices of one group start at multiples of this, as all memory of a device does.
constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

std::size_t elements_of(std::int64_t side) { return static_cast<std::size_t>(side * side); }

}  // namespace

void SolverWorkspace::reserve(const RootTable& table) {
  table_ = &table;
  const std::size_t count = table.size();
  if (count == 0) return;
  allocate_matrices();

  for (StagedArray<double>* const column : {&shifts, &epsilons, &combine_scales, &combine_shifts})
    *column = scalars_.add<double>(count);
  active = scalars_.add<std::uint8_t>(count);
  finished = scalars_.add<std::uint8_t>(count);
  scalars_.allocate();
  failed = Buffer(backend_, count * sizeof(std::int32_t));
  for (Buffer* const numbers : {&sizes, &clamped, &measured_})
    *numbers = Buffer(backend_, count * sizeof(double));
  flags.resize(count);
  errors_before.resize(count);
  numbers_.resize(count);
  rows_.reserve(count);
  pairs_.reserve(count);
  for (auto& squares : squares_) squares.reserve(count);
}

void SolverWorkspace::allocate_matrices() {
  std::set<std::pair<double, std::int64_t>> shapes;
  std::size_t usual = 0, largest = 0, all_values = 0;
  for (std::size_t r = 0; r < table_->size(); ++r) {
    const RootTable::Row& row = table_->rows()[r];
    shapes.emplace(row.exponent, row.side);
    if (table_->usual()[r] != 0) usual += elements_of(row.side) * size_of(arithmetic_);
    largest = std::max(largest, elements_of(row.side));
    all_values += static_cast<std::size_t>(row.side) * sizeof(double);
  }
  const std::size_t gaps = alignment * shapes.size();
  const std::size_t most = backend_.chunk_bytes(largest * size_of(arithmetic_));
  // More than are usually due at a time are computed one part after the other. A repetition in
  // float64 takes one matrix at a time where memory is short.
  matrix_bytes_ = aligned(std::max(largest * sizeof(double), std::min(usual, most) + gaps));
  memory_->reserve(backend_, static_cast<std::size_t>(matrices_) * matrix_bytes_);
  values_ = Buffer(backend_, all_values + gaps);
}

bool SolverWorkspace::take(const Selection& from, std::size_t& next) {
  rows_.clear();
  pairs_.clear();
  for (auto& squares : squares_) squares.clear();

  std::size_t bytes = 0, values = 0;
  for (; next < table_->size(); ++next) {
    if (!from.wanted.empty() && from.wanted[next] == 0) continue;
    const RootTable::Row& row = table_->rows()[next];
    if (from.one_exponent && !rows_.empty() && row.exponent != exponent()) break;
    const bool begins = rows_.empty() || rows_.back() + 1 != next || pairs_.back().side != row.side;
    if (begins) {
      bytes = aligned(bytes);
      values = aligned(values);
    }
    const std::size_t size = elements_of(row.side) * size_of(from.type);
    const std::size_t value_size = static_cast<std::size_t>(row.side) * size_of(from.type);
    if (bytes + size > matrix_bytes_ || values + value_size > values_.bytes()) break;

    if (begins) begin_group(from.type, next, bytes, values);
    ++pairs_.back().count;
    for (int m = 0; m < matrices_; ++m) ++squares_[m].back().count;
    rows_.push_back(next);
    bytes += size;
    values += value_size;
  }
  return !rows_.empty();
}

void SolverWorkspace::begin_group(Type type, std::size_t row, std::size_t bytes,
                                  std::size_t values) {
  const std::int64_t side = table_->rows()[row].side, first = static_cast<std::int64_t>(row);
  pairs_.push_back({arithmetic_, side, 0, first, table_->arrays().data() + row, table_->layout()});
  char* matrix = static_cast<char*>(memory_->data()) + bytes;
  for (int m = 0; m < matrices_; ++m, matrix += matrix_bytes_)
    squares_[m].push_back(
        {type, side, 0, first, matrix, static_cast<char*>(values_.data()) + values});
}

void SolverWorkspace::unpack_factors(int a, Loading loading) {
  loading.scales = table_->scales().data();
  backend_.unpack_factors(pairs_, loading, squares_[a]);
}

std::span<const double> SolverWorkspace::measure(int a, Measure what, const std::uint8_t* which) {
  double* const to = static_cast<double*>(measured_.data());
  backend_.measure(squares_[a], what, to, which);
  const auto [first, count] = range();
  backend_.download(numbers_.data() + first, to + first, count * sizeof(double));
  backend_.synchronize();
  return numbers_;
}

void SolverWorkspace::upload_flags() {
  const auto [first, count] = range();
  backend_.upload(static_cast<std::int32_t*>(failed.data()) + first, flags.data() + first,
                  count * sizeof(std::int32_t));
}

void SolverWorkspace::pack_roots(int x, const RootScaling& scaling) {
  backend_.pack_roots(squares_[x], scaling, pairs_, static_cast<std::int32_t*>(failed.data()));
}

std::span<const std::int32_t> SolverWorkspace::pack_roots_and_wait(int x,
                                                                   const RootScaling& scaling) {
  pack_roots(x, scaling);
  return download_flags();
}

std::span<const std::int32_t> SolverWorkspace::download_flags() {
  const auto [first, count] = range();
  backend_.download(flags.data() + first, static_cast<std::int32_t*>(failed.data()) + first,
                    count * sizeof(std::int32_t));
  backend_.synchronize();
  return flags;
}

std::int64_t SolverWorkspace::bytes() const {
  std::size_t total = scalars_.bytes() + own_.bytes();
  for (const Buffer* const buffer : {&values_, &measured_, &sizes, &failed, &clamped})
    total += buffer->bytes();
  return static_cast<std::int64_t>(total);
}

}  // namespace shampoo::kernels
