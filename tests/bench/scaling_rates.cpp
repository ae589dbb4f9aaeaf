// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scaling_rates.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "tests/bench/roofline.h"
#include "tests/kernels/numbers.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/root_solver.h"

namespace shampoo::test {
namespace {

/// Seconds of the fastest call: at least 3, at most 50, until the time is spent.
template <typename Work>
double fastest(double seconds, Work&& work) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int i = 0; i < 50 && (i < 3 || spent < seconds); ++i) {
    const Clock::time_point begin = Clock::now();
    work();
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, took);
    spent += took;
  }
  return best;
}

double product_rate(kernels::Backend& backend, std::int64_t side, std::int64_t count) {
  const auto numbers = static_cast<std::size_t>(count * side * side);
  const std::vector<float> random = Numbers(1).some<float>(count * side * side);
  kernels::Buffer a(backend, numbers * sizeof(float)), c(backend, numbers * sizeof(float));
  backend.upload(a.data(), random.data(), numbers * sizeof(float));
  const kernels::SquareMatrixBatch from{Type::float32, side, count, 0, a.data(), nullptr};
  const kernels::SquareMatrixBatch to{Type::float32, side, count, 0, c.data(), nullptr};
  const double seconds = fastest(0.3, [&] {
    backend.multiply({&from, 1}, {&from, 1}, {&to, 1}, nullptr);
    backend.synchronize();
  });
  return 2 * static_cast<double>(numbers) * static_cast<double>(side) / seconds;
}

/// Of factors without special structure: symmetric noise, made positive definite. Their
/// eigenvalues are all different, so that no work is saved.
double root_rate(kernels::Backend& backend, std::int64_t side, std::int64_t count) {
  const std::int64_t pair = side * (side + 1);
  std::vector<float> random = Numbers(2).some<float>(count * pair);
  for (std::int64_t i = 0; i < count * side; ++i)
    random[i / side * pair + i % side * (side + 2)] += 2 * std::sqrt(static_cast<float>(side));
  kernels::Buffer factors(backend, random.size() * sizeof(float));
  backend.upload(factors.data(), random.data(), random.size() * sizeof(float));

  std::vector<kernels::RootJob> jobs;
  for (std::int64_t i = 0; i < count; ++i)
    jobs.push_back({.pair = static_cast<float*>(factors.data()) + i * pair,
                    .side = side,
                    .exponent = 0.25,
                    .epsilon = 1e-8});
  RootSolver solver(backend, Type::float32, Automatic{}, 0, jobs);
  const double seconds = fastest(1, [&] { solver.solve(jobs); });
  return static_cast<double>(count) * root_flops(side) / seconds;
}

}  // namespace

KernelRates measure_rates(int threads, std::int64_t side) {
  const auto backend = cpu_kernels({.threads = threads});
  backend->reserve({}, Type::float32, {side});
  // Many small matrices, so that a call lasts much longer than its start.
  const std::int64_t products = threads * std::max<std::int64_t>(1, 1024 / side);
  const std::int64_t roots = threads * std::max<std::int64_t>(1, 256 / side);
  KernelRates rates{.workers = threads};
  rates.gflops = product_rate(*backend, side, products) / 1e9;
  rates.eigen_gflops = root_rate(*backend, side, roots) / 1e9;
  MachineMeter machine(threads);
  for (int i = 0; i < 8; ++i)
    rates.gbytes = std::max(rates.gbytes, machine.bytes_per_second() / 1e9);
  return rates;
}

}  // namespace shampoo::test
