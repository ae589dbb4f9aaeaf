// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "tests/kernels/spectra.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/root_solver.h"

namespace shampoo::test {
namespace {

using kernels::RootJob;

struct Options {
  std::string backend = "cpu";
  std::string solver = "minimax";
  std::int64_t side = 1024;
  int count = 4;
  double condition = 1e6;
  double root = 4;
  int repeats = 5;
};

/// A symmetric matrix Q D Q^T with random Q, whose eigenvalues D lie between 1 / condition and 1,
/// evenly in their logarithms, and whose root is known.
class KnownMatrix {
 public:
  KnownMatrix(std::int64_t side, double condition, unsigned seed)
      : eigenvalues_(eigenvalues("log_uniform", side, condition)), seed_(seed) {}

  /// Q (D + shift I)^power Q^T
  Matrix power(double power, double shift) const {
    std::vector<double> d = eigenvalues_;
    for (double& x : d) x = std::pow(x + shift, power);
    return rotated(d, seed_);
  }

 private:
  std::vector<double> eigenvalues_;
  unsigned seed_;
};

/// Pair arrays whose factors are copies of a few known matrices.
class Factors {
 public:
  Factors(kernels::Backend& backend, const Options& options)
      : backend_(backend), options_(options) {
    const auto n = static_cast<std::size_t>(options.side);
    std::vector<float> pair(n * (n + 1), 0.0f);
    for (int i = 0; i < options.count; ++i) {
      if (i < kinds)
        matrices_.emplace_back(options.side, options.condition, static_cast<unsigned>(i + 1));
      if (i < kinds) {
        const Matrix a = matrices_.back().power(1, 0);
        images_.push_back(pair);
        for (std::size_t r = 0; r < n; ++r)
          for (std::size_t c = 0; c <= r; ++c)
            images_.back()[r * (n + 1) + c] = static_cast<float>(a[r * n + c]);
      }
      memory_.emplace_back(backend, pair.size() * sizeof(float));
      backend.upload(memory_.back().data(), images_[i % kinds].data(), memory_.back().bytes());
    }
    backend.synchronize();
  }

  std::vector<RootJob> jobs() const {
    std::vector<RootJob> jobs;
    for (const kernels::Buffer& memory : memory_)
      jobs.push_back({.pair = memory.data(),
                      .side = options_.side,
                      .exponent = 1 / options_.root,
                      .epsilon = epsilon()});
    return jobs;
  }

  /// Largest relative error of a root, in the Frobenius norm, against the exact one.
  double error() const {
    const auto n = static_cast<std::size_t>(options_.side);
    std::vector<float> pair(n * (n + 1));
    double worst = 0;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      backend_.download(pair.data(), memory_[i].data(), memory_[i].bytes());
      backend_.synchronize();
      const Matrix exact = matrices_[i].power(-1 / options_.root, epsilon());
      double difference = 0, norm = 0;
      for (std::size_t r = 0; r < n; ++r)
        for (std::size_t c = 0; c < n; ++c) {
          const double found = pair[std::min(r, c) * (n + 1) + std::max(r, c) + 1];
          difference += (found - exact[r * n + c]) * (found - exact[r * n + c]);
          norm += exact[r * n + c] * exact[r * n + c];
        }
      worst = std::max(worst, std::sqrt(difference / norm));
    }
    return worst;
  }

 private:
  static constexpr int kinds = 2;

  /// More than what Minimax adds of its own.
  double epsilon() const { return 1 / options_.condition; }

  kernels::Backend& backend_;
  const Options& options_;
  std::vector<KnownMatrix> matrices_;
  std::vector<std::vector<float>> images_;
  std::vector<kernels::Buffer> memory_;
};

Solver solver_of(const Options& options) {
  if (options.solver == "eigen") return Eigen{};
  if (options.solver == "tridiagonal") return Tridiagonal{};
  if (options.solver == "minimax_accurate") return Minimax{.precision = MinimaxPrecision::accurate};
  return Minimax{};
}

void measure(const Options& options) {
  const std::unique_ptr<kernels::Backend> backend =
      options.backend == "cuda" ? with_kernels(cuda_backend()) : cpu_kernels();
  const Factors factors(*backend, options);
  std::vector<RootJob> jobs = factors.jobs();
  RootSolver solver(*backend, Type::float32, solver_of(options), 0, jobs);
  solver.place(jobs);

  std::vector<double> times;
  for (int i = 0; i <= options.repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    solver.roots().enqueue();
    backend->synchronize();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) times.push_back(time.count());
  }
  solver.roots().collect(jobs);
  std::sort(times.begin(), times.end());
  nlohmann::ordered_json result;
  result["backend"] = backend->description();
  result["solver"] = options.solver;
  result["side"] = options.side;
  result["count"] = options.count;
  result["root"] = options.root;
  result["condition"] = options.condition;
  result["ms"] = times[times.size() / 2];
  result["ms_fastest"] = times.front();
  result["error"] = factors.error();
  result["failed"] = std::count_if(jobs.begin(), jobs.end(), [](const RootJob& job) {
    return job.outcome == kernels::Outcome::failed;
  });
  std::printf("%s\n", result.dump().c_str());
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  shampoo::test::Options options;
  CLI::App app("Times the refresh of many factors of one size, and its error; prints JSON.");
  app.add_option("--backend", options.backend)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--solver", options.solver)
      ->check(CLI::IsMember({"eigen", "minimax", "minimax_accurate", "tridiagonal"}));
  app.add_option("--side", options.side)->check(CLI::Range(1, 1 << 14));
  app.add_option("--count", options.count, "factors")->check(CLI::Range(1, 1 << 20));
  app.add_option("--condition", options.condition, "largest eigenvalue over the least")
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--root", options.root)->check(CLI::Range(1, 64));
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    shampoo::test::measure(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "root_benchmark: %s\n", error.what());
    return 1;
  }
}
