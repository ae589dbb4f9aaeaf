// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/workspace.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/cuda/gemm/half_panels.h"
#include "kernels/cuda/gemm/polar_kernels.h"

namespace shampoo::kernels::cuda {

namespace {

constexpr std::size_t rows = Workspace::rows;
constexpr std::size_t partial_bytes = rows * sizeof(double);
constexpr std::size_t number_bytes = 4 * rows * sizeof(double);
constexpr std::size_t row_bytes = partial_bytes + number_bytes + rows * sizeof(std::int32_t);

/// Of panels, unless two matrices need more: 8 products of matrices of 1024 at a time fill a GPU,
/// and more would only leave its cache.
constexpr std::size_t usual_panel_bytes = std::size_t{96} << 20;

std::size_t dense_bytes(std::span<const Stack> stacks, Type arithmetic) {
  std::int64_t elements = 0;
  for (const Stack& stack : stacks) elements += stack.count * stack.stride;
  constexpr std::size_t alignment = 256;
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(arithmetic);
  return (bytes + alignment - 1) / alignment * alignment;
}

bool need_two(std::span<const Stack> stacks) {
  return std::ranges::any_of(stacks,
                             [](const Stack& stack) { return stack.whitens || stack.packed; });
}

/// Panels of both operands.
std::size_t panel_bytes(std::int64_t side, bool has_low) {
  return 2 * static_cast<std::size_t>(HalfPanels::size(side, has_low)) * sizeof(Float16);
}

std::size_t all_panel_bytes(std::span<const Stack> stacks) {
  std::size_t bytes = 0;
  for (const Stack& stack : stacks)
    for (std::size_t k = 0; k < stack.extent.size(); ++k)
      if (stack.factors[k] != nullptr)
        bytes += static_cast<std::size_t>(stack.count) * panel_bytes(stack.extent[k], true);
  return bytes;
}

void require(bool has) {
  if (!has) throw std::logic_error("reserve() must be called before work that needs its memory");
}

}  // namespace

Workspace::~Workspace() {
  for (const Part& part : {dense_, panels_, rows_, polar_norms_, polar_})
    if (part.memory != nullptr) device_.release(part.memory);
}

void Workspace::grow(Part& part, std::size_t bytes) {
  if (bytes <= part.bytes) return;
  void* const larger = device_.allocate(bytes);
  if (part.memory != nullptr) device_.release(part.memory);
  part = {bytes, larger};
}

void Workspace::reserve(std::span<const Stack> stacks, Type arithmetic, const SolverCalls& calls) {
  grow(rows_, row_bytes);
  grow(dense_, dense_bytes(stacks, arithmetic) * (need_two(stacks) ? 2 : 1));
  if (arithmetic == Type::float32 && calls.symmetric_products)
    grow(panels_, std::max(panel_bytes(calls.largest_side, true),
                           std::min(all_panel_bytes(stacks), usual_panel_bytes)));
}

void Workspace::reserve_orthogonalization(std::span<const Stack> stacks,
                                          std::span<const PolarPlan> plans, Type arithmetic) {
  grow(rows_, row_bytes);
  grow(dense_, dense_bytes(stacks, arithmetic));
  std::size_t blocks = 0;
  for (std::size_t s = 0; s < stacks.size(); ++s) {
    const PolarStack stack(stacks[s], arithmetic);
    blocks += static_cast<std::size_t>(stack.count);
    grow(polar_, plans[s].steps.empty() ? stack.decomposition_bytes() : stack.product_bytes());
    if (arithmetic == Type::float32 && !plans[s].steps.empty())
      grow(panels_, static_cast<std::size_t>(stack.chunk()) * panel_bytes(stack.side(), true));
  }
  grow(polar_norms_, blocks * sizeof(double));
}

double* Workspace::polar_norms() const {
  require(polar_norms_.memory != nullptr && polar_.memory != nullptr);
  return static_cast<double*>(polar_norms_.memory);
}

void* Workspace::dense(std::span<const Stack> stacks, Type arithmetic) const {
  require(dense_bytes(stacks, arithmetic) <= dense_.bytes);
  return dense_.memory;
}

void* Workspace::second_dense(std::span<const Stack> stacks, Type arithmetic) const {
  const std::size_t bytes = dense_bytes(stacks, arithmetic);
  require(2 * bytes <= dense_.bytes);
  return static_cast<char*>(dense_.memory) + bytes;
}

double* Workspace::partials() const {
  require(rows_.memory != nullptr);
  return static_cast<double*>(rows_.memory);
}

double* Workspace::numbers() const { return partials() + rows; }

std::int32_t* Workspace::flags() const {
  return reinterpret_cast<std::int32_t*>(numbers() + 4 * rows);
}

std::int64_t Workspace::panel_matrices(std::int64_t side, bool has_low) const {
  const std::size_t matrices = panels_.bytes / panel_bytes(side, has_low);
  require(matrices > 0);
  return static_cast<std::int64_t>(matrices);
}

std::size_t Workspace::bytes() const {
  std::size_t sum = 0;
  for (const Part& part : {dense_, panels_, rows_, polar_norms_, polar_}) sum += part.bytes;
  return sum;
}

}  // namespace shampoo::kernels::cuda
