// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/roofline.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "grouping/blocks.h"
#include "kernels/cpu/blas/blas.h"

namespace shampoo::test {
namespace {

constexpr int tries = 8;
constexpr int product_side = 1024;
constexpr std::size_t array_bytes = std::size_t{64} << 20;

/// Seconds of the fastest try in which all threads do `work` at the same time. `prepare` gives each
/// thread its own.
double fastest(int threads, const std::function<std::function<void()>()>& prepare) {
  double best = 0;
  std::chrono::steady_clock::time_point begin;
  std::barrier together(threads);
  const auto body = [&](int rank) {
    const std::function<void()> work = prepare();
    work();
    for (int i = 0; i < tries; ++i) {
      together.arrive_and_wait();
      if (rank == 0) begin = std::chrono::steady_clock::now();
      together.arrive_and_wait();
      work();
      together.arrive_and_wait();
      if (rank != 0) continue;
      const double took =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      best = i == 0 ? took : std::min(best, took);
    }
  };
  std::vector<std::jthread> others;
  for (int rank = 1; rank < threads; ++rank) others.emplace_back(body, rank);
  body(0);
  return best;
}

std::function<void()> product() {
  std::vector<float> a(std::size_t{product_side} * product_side, 0.5f), c = a;
  return [a = std::move(a), c = std::move(c)]() mutable {
    constexpr int n = product_side;
    kernels::blas::gemm('N', 'N', n, n, n, 1.0f, a.data(), n, a.data(), n, 0.0f, c.data(), n);
  };
}

std::function<void()> sum() {
  std::vector<float> a(array_bytes / sizeof(float), 0.5f), b = a;
  return [a = std::move(a), b = std::move(b)]() mutable {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  };
}

}  // namespace

Machine measure_machine(int threads) {
  const double flops = 2.0 * product_side * product_side * product_side * threads;
  const double bytes = 3.0 * static_cast<double>(array_bytes) * threads;
  return {flops / fastest(threads, product), bytes / fastest(threads, sum)};
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
