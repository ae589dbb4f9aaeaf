// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/roofline.h"

#include <barrier>
#include <chrono>
#include <cstddef>

#include "grouping/blocks.h"
#include "kernels/cpu/blas/blas.h"

namespace shampoo::test {
namespace {

constexpr int product_side = 1024;
constexpr std::size_t product_numbers = std::size_t{product_side} * product_side;
constexpr std::size_t array_bytes = std::size_t{64} << 20;

}  // namespace

/// Seconds in which every thread has run body(its operands).
template <typename Body>
double MachineMeter::seconds_of(const Body& body) {
  std::barrier together(pool_.size());
  std::chrono::steady_clock::time_point begin;
  pool_.run(pool_.size(), 1, [&](std::int64_t, int worker) {
    together.arrive_and_wait();  // so that no thread takes two of the tasks
    if (worker == 0) begin = std::chrono::steady_clock::now();
    body(operands_[worker]);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

MachineMeter::MachineMeter(int threads)
    : pool_(threads), operands_(static_cast<std::size_t>(threads)) {
  seconds_of([](Operands& own) {
    own.a.resize(product_numbers, 0.5f);
    own.c = own.a;
    own.x.resize(array_bytes / sizeof(float), 0.5f);
    own.y = own.x;
  });
}

double MachineMeter::flops_per_second() {
  const double seconds = seconds_of([](Operands& own) {
    constexpr int n = product_side;
    const float* const a = own.a.data();
    kernels::blas::gemm('N', 'N', n, n, n, 1.0f, a, n, a, n, 0.0f, own.c.data(), n);
  });
  return 2.0 * product_side * product_numbers * pool_.size() / seconds;
}

double MachineMeter::bytes_per_second() {
  const double seconds = seconds_of([](Operands& own) {
    for (std::size_t i = 0; i < own.x.size(); ++i) own.x[i] += own.y[i];
  });
  return 3.0 * array_bytes * pool_.size() / seconds;
}

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
