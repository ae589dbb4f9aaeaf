// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "tests/kernels/numbers.h"
#include "tests/support/root_solver.h"

/// Symmetric matrices with known eigenvalues, and what solvers make of them.
namespace shampoo::test {

using Matrix = std::vector<double>;  ///< row-major, square

inline std::int64_t side_of(const Matrix& a) {
  return static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(a.size()))));
}

/// Q diag(d) Q^T for a random orthogonal Q, a product of reflections.
inline Matrix rotated(const std::vector<double>& d, unsigned seed) {
  const std::size_t n = d.size();
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Matrix a(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) a[i * n + i] = d[i];
  std::vector<double> v(n), w(n);
  for (std::size_t r = 0; n > 1 && r < n; ++r) {
    double norm = 0, inner = 0;
    for (double& x : v) norm += std::pow(x = normal(random), 2);
    // (I - 2 v v^T / |v|^2) A (I - 2 v v^T / |v|^2) = A - v w^T - w v^T
    std::fill(w.begin(), w.end(), 0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) w[j] += 2 / norm * v[i] * a[i * n + j];
    for (std::size_t i = 0; i < n; ++i) inner += v[i] * w[i];
    for (std::size_t i = 0; i < n; ++i) w[i] -= inner / norm * v[i];
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) a[i * n + j] -= v[i] * w[j] + w[i] * v[j];
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) a[j * n + i] = a[i * n + j];
  return a;
}

/// Eigenvalues from 1 down: "log_uniform" to 1 / condition, "power_law" 1 / i^2 but at least
/// 1 / condition, or "low_rank", an eighth of them 1 and the others 0.
inline std::vector<double> eigenvalues(const std::string& kind, std::int64_t n, double condition) {
  std::vector<double> d;
  for (std::int64_t i = 0; i < n; ++i) {
    const double part = n == 1 ? 0 : static_cast<double>(i) / static_cast<double>(n - 1);
    if (kind == "log_uniform")
      d.push_back(std::pow(condition, -part));
    else if (kind == "power_law")
      d.push_back(std::max(std::pow(static_cast<double>(i + 1), -2), 1 / condition));
    else
      d.push_back(i <= n / 8 ? 1 : 0);
  }
  return d;
}

struct Root {
  Matrix matrix;
  kernels::Outcome outcome = kernels::Outcome::failed;
  std::int64_t clamped = 0;
};

/// The roots of `factors` in one call; each is first rounded to Real. `job` gives the rest.
template <typename Real>
std::vector<Root> roots_of(kernels::Backend& backend, const std::vector<Matrix>& factors,
                           const Solver& solver, const kernels::RootJob& job,
                           const std::int32_t* proceed = nullptr, double trace_exponent = 0) {
  std::vector<kernels::Buffer> pairs;
  std::vector<kernels::RootJob> jobs;
  for (const Matrix& a : factors) {
    const std::int64_t n = side_of(a);
    pairs.emplace_back(backend, static_cast<std::size_t>(n * (n + 1)) * sizeof(Real));
    Real* const pair = static_cast<Real*>(pairs.back().data());
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j)
        pair[i * (n + 1) + j] = static_cast<Real>(a[static_cast<std::size_t>(i * n + j)]);
    jobs.push_back(job);
    jobs.back().pair = pair;
    jobs.back().side = n;
  }
  RootSolver(backend, type_of<Real>, solver, trace_exponent, jobs).solve(jobs, proceed);

  std::vector<Root> roots;
  for (const kernels::RootJob& done : jobs) {
    const std::int64_t n = done.side;
    const Real* const pair = static_cast<const Real*>(done.pair);
    Matrix root(static_cast<std::size_t>(n * n));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i; j < n; ++j)
        root[static_cast<std::size_t>(j * n + i)] = root[static_cast<std::size_t>(i * n + j)] =
            static_cast<double>(pair[i * (n + 1) + j + 1]);
    roots.push_back({root, done.outcome, done.clamped});
  }
  return roots;
}

}  // namespace shampoo::test
