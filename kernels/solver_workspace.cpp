// SPDX-License-Identifier: Apache-2.0
#include "kernels/solver_workspace.h"

#include <algorithm>

namespace shampoo::kernels {

namespace {

/// Bytes of one set of dense matrices, unless a single matrix needs more: enough that all workers
/// have several matrices of common sides, little beside the state of a model that needs it.
constexpr std::size_t usual_bytes = std::size_t{64} << 20;

}  // namespace

void SolverWorkspace::reserve(std::span<const std::int64_t> sides) {
  if (sides.empty()) return;
  std::size_t all = 0, largest = 0, all_values = 0;
  for (const std::int64_t side : sides) {
    // A repetition in float64 takes one matrix at a time where memory is short.
    const std::size_t elements = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
    all += elements * size_of(arithmetic_);
    largest = std::max(largest, elements * sizeof(double));
    all_values += static_cast<std::size_t>(side) * sizeof(double);
  }
  matrix_bytes_ = std::max(largest, std::min(all, usual_bytes));
  value_bytes_ = all_values;
  for (int m = 0; m < matrices_; ++m) memory_[m] = Buffer(backend_, matrix_bytes_);
  values_ = Buffer(backend_, value_bytes_);

  const std::size_t count = sides.size();
  for (Mirror<double>* column :
       {&scales, &shifts, &epsilons, &exponents, &combine_scales, &combine_shifts})
    *column = Mirror<double>(backend_, count);
  active = Mirror<std::uint8_t>(backend_, count);
  finished = Mirror<std::uint8_t>(backend_, count);
  arrays_ = Mirror<void*>(backend_, count);
  failed = Buffer(backend_, count * sizeof(std::int32_t));
  raised = Buffer(backend_, count * sizeof(double));
  measured_ = Buffer(backend_, count * sizeof(double));
  numbers_.resize(count);
  before.resize(count);
  flags.resize(count);
  taken_.reserve(count);
  pairs_.reserve(count);
  for (auto& squares : squares_) squares.reserve(count);
}

std::size_t SolverWorkspace::take(std::span<const int> order, std::span<const RootJob> jobs,
                                  Type type) {
  taken_.clear();
  pairs_.clear();
  for (auto& squares : squares_) squares.clear();

  std::size_t bytes = 0, values = 0;
  for (const int job : order) {
    const RootJob& j = jobs[job];
    const std::size_t side = static_cast<std::size_t>(j.side);
    const std::size_t size = side * side * size_of(type);
    if (bytes + size > matrix_bytes_) break;

    const int row = static_cast<int>(taken_.size());
    if (pairs_.empty() || pairs_.back().side != j.side) {
      pairs_.push_back({arithmetic_, j.side, 0, row, arrays_.data() + row});
      for (int m = 0; m < matrices_; ++m)
        squares_[m].push_back({type, j.side, 0, row, static_cast<char*>(memory_[m].data()) + bytes,
                               static_cast<char*>(values_.data()) + values});
    }
    ++pairs_.back().count;
    for (int m = 0; m < matrices_; ++m) ++squares_[m].back().count;
    arrays_.host[row] = j.pair;
    scales.host[row] = j.scale;
    epsilons.host[row] = j.epsilon;
    exponents.host[row] = j.exponent;
    taken_.push_back(job);
    bytes += size;
    values += side * size_of(type);
  }
  arrays_.upload(backend_);
  scales.upload(backend_);
  epsilons.upload(backend_);
  exponents.upload(backend_);
  return taken_.size();
}

void SolverWorkspace::load(int a, double trace_exponent) {
  shifts.upload(backend_);
  backend_.load(pairs_, {scales.data(), shifts.data(), epsilons.data(), trace_exponent},
                squares_[a]);
}

std::span<const double> SolverWorkspace::measure(int a, Measure what, const std::uint8_t* which) {
  double* const to = static_cast<double*>(measured_.data());
  backend_.measure(squares_[a], what, to, which);
  backend_.download(numbers_.data(), to, taken_.size() * sizeof(double));
  backend_.synchronize();
  return {numbers_.data(), taken_.size()};
}

void SolverWorkspace::send_flags() {
  backend_.upload(failed.data(), flags.data(), taken_.size() * sizeof(std::int32_t));
}

std::span<const std::int32_t> SolverWorkspace::store(int x) {
  std::int32_t* const to = static_cast<std::int32_t*>(failed.data());
  backend_.store(squares_[x], pairs_, to);
  backend_.download(flags.data(), to, taken_.size() * sizeof(std::int32_t));
  backend_.synchronize();
  return {flags.data(), taken_.size()};
}

std::int64_t SolverWorkspace::bytes() const {
  std::size_t total = values_.bytes();
  for (const Buffer& memory : memory_) total += memory.bytes();
  return static_cast<std::int64_t>(total);
}

}  // namespace shampoo::kernels
