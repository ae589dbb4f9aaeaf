// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/solver_workspace.h"

#include <algorithm>
#include <set>

#include "kernels/solvers/root_slots.h"

namespace shampoo::kernels {

namespace {

/// Bytes of one set of dense matrices, unless a single matrix needs more: enough that all workers
/// have several matrices of common sides, little beside the state of a model that needs it.
constexpr std::size_t usual_bytes = std::size_t{64} << 20;

/// Matrices of one side start at multiples of this, as all memory of a device does.
constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

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
  const std::size_t gaps = alignment * std::set(sides.begin(), sides.end()).size();
  matrix_bytes_ = std::max(largest, std::min(all + gaps, usual_bytes));
  value_bytes_ = all_values + gaps;
  for (int m = 0; m < matrices_; ++m) memory_[m] = Buffer(backend_, matrix_bytes_);
  values_ = Buffer(backend_, value_bytes_);

  const std::size_t count = sides.size();
  for (Mirror<double>* column :
       {&scales, &shifts, &epsilons, &exponents, &combine_scales, &combine_shifts})
    *column = Mirror<double>(backend_, count);
  active = Mirror<std::uint8_t>(backend_, count);
  finished = Mirror<std::uint8_t>(backend_, count);
  arrays_ = Mirror<void*>(backend_, count);
  sizes = Buffer(backend_, count * sizeof(double));
  zeros_ = Buffer(backend_, count * sizeof(double));
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
  const std::size_t count = take_placed(order, jobs, type, 0);
  place(order.first(count), jobs);
  return count;
}

void SolverWorkspace::place(std::span<const int> order, std::span<const RootJob> jobs) {
  for (std::size_t row = 0; row < order.size(); ++row) {
    const RootJob& job = jobs[order[row]];
    arrays_.host[row] = job.pair;
    scales.host[row] = job.scale;
    epsilons.host[row] = job.epsilon;
    exponents.host[row] = job.exponent;
  }
  arrays_.upload(backend_);
  scales.upload(backend_);
  epsilons.upload(backend_);
  exponents.upload(backend_);
}

void SolverWorkspace::begin_chunk(const double* job_scales, const double* job_epsilons,
                                  const std::uint8_t* job_active) {
  taken_.clear();
  pairs_.clear();
  for (auto& squares : squares_) squares.clear();
  job_scales_ = job_scales;
  job_epsilons_ = job_epsilons;
  job_active_ = job_active;
}

void SolverWorkspace::add_group(Type type, std::int64_t side, std::size_t row, void* const* arrays,
                                std::size_t bytes, std::size_t values) {
  const auto first = static_cast<std::int64_t>(row);
  pairs_.push_back({arithmetic_, side, 0, first, arrays + row});
  for (int m = 0; m < matrices_; ++m)
    squares_[m].push_back({type, side, 0, first, static_cast<char*>(memory_[m].data()) + bytes,
                           static_cast<char*>(values_.data()) + values});
}

void SolverWorkspace::extend_group(std::int64_t count) {
  pairs_.back().count += count;
  for (int m = 0; m < matrices_; ++m) squares_[m].back().count += count;
}

std::optional<double> SolverWorkspace::take_slots(const RootSlots& slots, bool all,
                                                  SlotCursor& cursor) {
  begin_chunk(slots.scales(), slots.epsilons(), slots.active());
  std::size_t bytes = 0;
  std::optional<double> exponent;
  for (; cursor.rows < slots.rows().size(); ++cursor.rows, cursor.row = 0) {
    const RootSlots::Rows& rows = slots.rows()[cursor.rows];
    const std::size_t left = (all ? rows.size : rows.placed) - cursor.row;
    if (left == 0) continue;
    if (exponent.value_or(rows.exponent) != rows.exponent) break;
    exponent = rows.exponent;
    const auto side = static_cast<std::size_t>(rows.side);
    const std::size_t size = side * side * size_of(arithmetic_);
    bytes = aligned(bytes);
    if (bytes + size > matrix_bytes_) break;
    const std::size_t count = std::min(left, (matrix_bytes_ - bytes) / size);
    add_group(arithmetic_, rows.side, rows.first + cursor.row, slots.arrays(), bytes, 0);
    extend_group(static_cast<std::int64_t>(count));
    bytes += count * size;
    cursor.row += count;
    if (count < left) break;
  }
  return exponent;
}

std::size_t SolverWorkspace::take_placed(std::span<const int> order, std::span<const RootJob> jobs,
                                         Type type, std::size_t first) {
  begin_chunk(scales.data(), epsilons.data(), nullptr);

  std::size_t bytes = 0, values = 0;
  for (const int job : order) {
    const std::int64_t n = jobs[job].side;
    const std::size_t side = static_cast<std::size_t>(n), size = side * side * size_of(type);
    const bool begins = pairs_.empty() || pairs_.back().side != n;
    if (begins) {
      bytes = aligned(bytes);
      values = aligned(values);
    }
    if (bytes + size > matrix_bytes_) break;

    const std::size_t row = first + taken_.size();
    if (begins) add_group(type, n, row, arrays_.data(), bytes, values);
    extend_group(1);
    taken_.push_back(job);
    bytes += size;
    values += side * size_of(type);
  }
  return taken_.size();
}

void SolverWorkspace::load(int a, double trace_exponent) {
  shifts.upload(backend_);
  backend_.load(pairs_, {job_scales_, shifts.data(), job_epsilons_, trace_exponent}, squares_[a]);
}

void SolverWorkspace::load_unshifted(int a, double trace_exponent) {
  backend_.load(
      pairs_,
      {job_scales_, static_cast<const double*>(zeros_.data()), job_epsilons_, trace_exponent},
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

void SolverWorkspace::queue_store(int x) {
  backend_.store(squares_[x], pairs_, static_cast<std::int32_t*>(failed.data()));
}

std::span<const std::int32_t> SolverWorkspace::store(int x) {
  queue_store(x);
  backend_.download(flags.data(), failed.data(), taken_.size() * sizeof(std::int32_t));
  backend_.synchronize();
  return {flags.data(), taken_.size()};
}

std::int64_t SolverWorkspace::bytes() const {
  std::size_t total = arrays_.bytes() + active.bytes() + finished.bytes();
  for (const Buffer& memory : memory_) total += memory.bytes();
  for (const Buffer* const buffer : {&values_, &measured_, &zeros_, &sizes, &failed, &raised})
    total += buffer->bytes();
  for (const Mirror<double>* const column :
       {&scales, &shifts, &epsilons, &exponents, &combine_scales, &combine_shifts})
    total += column->bytes();
  return static_cast<std::int64_t>(total);
}

}  // namespace shampoo::kernels
