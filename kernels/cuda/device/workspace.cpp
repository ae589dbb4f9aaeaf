// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/workspace.h"

#include <stdexcept>

#include "kernels/cuda/gemm/polar_kernels.h"
#include "kernels/cuda/mode_chain.h"

namespace shampoo::kernels::cuda {

namespace {

constexpr std::size_t rows = Workspace::rows;
constexpr std::size_t partial_bytes = rows * sizeof(double);
constexpr std::size_t number_bytes = Workspace::numbers_of_row * rows * sizeof(double);
constexpr std::size_t row_bytes = partial_bytes + number_bytes + rows * sizeof(std::int32_t);

constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

std::size_t eigen_bytes(std::int64_t side) {
  return static_cast<std::size_t>(side * (3 * side + 1)) * sizeof(double);
}

std::size_t dense_bytes(std::span<const Stack> stacks, Type arithmetic) {
  std::int64_t elements = 0;
  for (const Stack& stack : stacks) elements += stack.count * stack.stride;
  return aligned(static_cast<std::size_t>(elements) * size_of(arithmetic));
}

std::size_t root_bytes(std::span<const Stack> stacks, Type arithmetic) {
  std::size_t bytes = 0;
  for (const Stack& stack : stacks) bytes += dense_root_bytes(stack, arithmetic);
  return bytes;
}

void require(bool has) {
  if (!has) throw std::logic_error("reserve() must be called before work that needs its memory");
}

}  // namespace

template <typename Body>
void Workspace::for_each_part(const Body& body) const {
  for (const Part* part : {&dense_, &roots_, &rows_, &eigen_, &polar_norms_, &polar_}) body(*part);
  for (const Part& part : outgrown_) body(part);
}

Workspace::~Workspace() {
  for_each_part([this](const Part& part) { device_.release(part.memory); });
}

void Workspace::grow(Part& part, std::size_t bytes) {
  if (bytes <= part.bytes) return;
  outgrown_.reserve(outgrown_.size() + 1);
  void* const larger = device_.allocate(bytes);
  if (part.captured)
    outgrown_.push_back(part);
  else
    device_.release(part.memory);
  part = {bytes, larger};
}

void* Workspace::address(Part& part) {
  part.captured = part.captured || device_.is_capturing();
  return part.memory;
}

void Workspace::reserve(std::span<const Stack> stacks, Type arithmetic, const SolverCalls& calls) {
  grow(rows_, row_bytes);
  grow(dense_, 2 * dense_bytes(stacks, arithmetic));
  grow(roots_, root_bytes(stacks, arithmetic));
  if (calls.decompositions) grow(eigen_, eigen_bytes(calls.largest_side));
}

void Workspace::reserve_orthogonalization(std::span<const Stack> stacks,
                                          std::span<const PolarPlan> plans, Type arithmetic) {
  grow(rows_, row_bytes);
  std::size_t blocks = 0, arrays = 1;
  for (std::size_t s = 0; s < stacks.size(); ++s) {
    const PolarStack stack(stacks[s], arithmetic);
    blocks += static_cast<std::size_t>(stack.count);
    if (plans[s].keeps_others) arrays = 2;
    grow(polar_, plans[s].steps.empty() ? stack.decomposition_bytes() : stack.product_bytes());
    if (plans[s].steps.empty()) grow(eigen_, eigen_bytes(stack.rows + stack.columns));
  }
  grow(dense_, arrays * dense_bytes(stacks, arithmetic));
  grow(polar_norms_, blocks * sizeof(double));
}

double* Workspace::polar_norms() {
  require(polar_norms_.memory != nullptr && polar_.memory != nullptr);
  return static_cast<double*>(address(polar_norms_));
}

void* Workspace::dense(std::span<const Stack> stacks, Type arithmetic) {
  require(dense_bytes(stacks, arithmetic) <= dense_.bytes);
  return address(dense_);
}

void* Workspace::second_dense(std::span<const Stack> stacks, Type arithmetic) {
  const std::size_t bytes = dense_bytes(stacks, arithmetic);
  require(2 * bytes <= dense_.bytes);
  return static_cast<char*>(address(dense_)) + bytes;
}

void* Workspace::roots(std::span<const Stack> stacks, Type arithmetic) {
  require(root_bytes(stacks, arithmetic) <= roots_.bytes);
  return address(roots_);
}

double* Workspace::partials() {
  require(rows_.memory != nullptr);
  return static_cast<double*>(address(rows_));
}

double* Workspace::numbers() { return partials() + rows; }

std::int32_t* Workspace::flags() {
  return reinterpret_cast<std::int32_t*>(numbers() + numbers_of_row * rows);
}

double* Workspace::eigen(std::int64_t side) {
  require(eigen_bytes(side) <= eigen_.bytes);
  return static_cast<double*>(address(eigen_));
}

std::size_t Workspace::bytes() const {
  std::size_t sum = 0;
  for_each_part([&](const Part& part) { sum += part.bytes; });
  return sum;
}

}  // namespace shampoo::kernels::cuda
