// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/roofline.h"

#include <chrono>
#include <cstddef>

#include "grouping/blocks.h"
#include "kernels/cpu/blas/blas.h"
#include "tests/bench/results.h"

namespace shampoo::test {
namespace {

constexpr int product_side = 1024;
constexpr std::size_t product_numbers = std::size_t{product_side} * product_side;
constexpr std::size_t array_bytes = std::size_t{64} << 20;

/// Seconds until body(thread) has returned on all threads.
template <typename Body>
double seconds_of(kernels::Pool& pool, const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  pool.run(pool.size(), 1, [&](std::int64_t thread, int) { body(thread); });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

MachineRates::MachineRates(int threads)
    : operands_(static_cast<std::size_t>(threads)), pool_(threads) {
  for (Operands& of_thread : operands_) {
    of_thread.a.resize(product_numbers, 0.5f);
    of_thread.c = of_thread.a;
    of_thread.x.resize(array_bytes / sizeof(float), 0.5f);
    of_thread.y = of_thread.x;
  }
}

void MachineRates::measure() {
  const double products = seconds_of(pool_, [this](std::int64_t thread) {
    constexpr int n = product_side;
    const float* const a = operands_[thread].a.data();
    kernels::blas::gemm('N', 'N', n, n, n, 1.0f, a, n, a, n, 0.0f, operands_[thread].c.data(), n);
  });
  const double sums = seconds_of(pool_, [this](std::int64_t thread) {
    auto& [a, c, x, y] = operands_[thread];
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  });
  const auto threads = static_cast<double>(operands_.size());
  flops_.push_back(2.0 * product_side * product_numbers * threads / products);
  bytes_.push_back(3.0 * array_bytes * threads / sums);
}

Machine MachineRates::median() const { return {test::median(flops_), test::median(bytes_)}; }

Work plain_step_work(const Model& model, std::int64_t block_size) {
  constexpr double element = sizeof(float);
  Work work;
  for (const Model::Tensor& tensor : model.tensors) {
    const grouping::Shape merged = grouping::merge_small_dimensions(tensor.shape, block_size, 1);
    for (const grouping::Box& box : grouping::cut(merged, block_size)) {
      const auto elements = static_cast<double>(grouping::numel(box.extent));
      work.bytes += element * elements * (1 + 2 + 2 + 2);
      for (const std::int64_t extent : box.extent) {
        const auto n = static_cast<double>(extent);
        // G G^T: n (n + 1) / 2 sums of elements / n products; then n products for every element.
        work.flops += (n + 1) * elements + 2 * n * elements;
        work.bytes += element * n * (n + 1) / 2 * (2 + 1);
      }
    }
  }
  return work;
}

}  // namespace shampoo::test
