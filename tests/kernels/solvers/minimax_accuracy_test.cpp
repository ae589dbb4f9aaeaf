// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/rounding_backend.h"
#include "tests/kernels/solvers/minimax_error.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using enum MinimaxPrecision;

constexpr double half_float = std::numeric_limits<float>::epsilon() / 2;

TEST(MinimaxRoot, InFloat64IsThatOfAnEigendecomposition) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  for (const std::string kind : {"log_uniform", "power_law", "low_rank"})
    for (const std::int64_t n : {1, 2, 3, 31, 64, 257})
      for (const double kappa : {1e2, 1e7, 1e10})
        for (const double exponent : {0.5, 0.25, 1.0 / 6, 0.75, 1.0}) {
          if (n == 257 && exponent < 0.2) continue;
          const Matrix a = rotated(eigenvalues(kind, n, kappa), 3);
          // Products round by about one machine epsilon of their largest eigenvalue, which is
          // kappa of the least; ten steps add theirs, and both methods err.
          const double bound = 1e-13 + 100 * kappa * std::numeric_limits<double>::epsilon();
          EXPECT_LE(error<double>(*backend, a, {.kappa_max = kappa}, exponent), bound)
              << kind << ' ' << n << ' ' << kappa << ' ' << exponent;
        }
}

TEST(MinimaxRoot, InFloat32HasItsErrorTimesTheCondition) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  for (const std::string kind : {"log_uniform", "power_law", "low_rank"})
    for (const std::int64_t n : {1, 2, 3, 31, 64, 257})
      for (const double kappa : {1e2, 1e4, 1e6})
        for (const double exponent : {0.5, 0.25}) {
          const Matrix a = in_float32(rotated(eigenvalues(kind, n, kappa), 3));
          const Minimax solver{.kappa_max = kappa, .precision = accurate};
          // A relative change of the matrix by its rounding moves the least eigenvalue by kappa
          // times as much, and the root by that times the exponent; steps add to it.
          const double bound = 1e-5 + exponent * kappa * half_float;
          EXPECT_LE(error<float>(*backend, a, solver, exponent), bound)
              << kind << ' ' << n << ' ' << kappa << ' ' << exponent;
        }
}

/// Where largest / kappa_max is n^(1/4) times what the largest eigenvalue alone would ask for.
TEST(MinimaxRoot, OfEqualEigenvaluesIsDampedByItsBound) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  for (const std::int64_t n : {2, 64, 256}) {
    const Matrix a = rotated(std::vector<double>(static_cast<std::size_t>(n), 3), 1);
    EXPECT_LE(error<double>(*backend, a, {.kappa_max = 1e3}, 0.25), 1e-12) << n;
  }
}

class MinimaxAtPlace : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, MinimaxAtPlace, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

/// Errors of matrices that are split, over those in float32: two terms of 11 bits have 22, a
/// quarter of its resolution, and one triangle of a product stands for both, so that the rounding
/// errors of (i, j) and (j, i) do not cancel.
const double of_two_halves = 4 * std::sqrt(2.0);

TEST_P(MinimaxAtPlace, KeepsItsStatedErrors) {
  const std::unique_ptr<kernels::Backend> backend = backend_with_host_arrays(GetParam());
  const std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 2});
  // At 1e2 the first step is one of halves.
  for (const double kappa : {1e2, 1e6})
    for (const std::string kind : {"log_uniform", "power_law"})
      for (const std::int64_t n : {31, 67, 130})
        for (const double exponent : {0.5, 0.25}) {
          const Matrix a = in_float32(rotated(eigenvalues(kind, n, kappa), 5));
          EXPECT_LE(error<float>(*backend, a, {.kappa_max = kappa, .precision = mixed}, exponent),
                    exponent == 0.5 ? 5e-3 : 3e-3)
              << kind << ' ' << n << ' ' << exponent;
          const Minimax split{.kappa_max = kappa, .precision = accurate};
          EXPECT_LE(error<float>(*backend, a, split, exponent),
                    of_two_halves * error<float>(*cpu, a, split, exponent) + 1e-6)
              << kind << ' ' << n << ' ' << exponent;
        }
}

TEST_P(MinimaxAtPlace, PreservesTheDirectionsOfGradientsThatTheFactorSums) {
  const std::unique_ptr<kernels::Backend> backend = backend_with_host_arrays(GetParam());
  for (const std::size_t n : {64, 130})
    for (const double exponent : {0.5, 0.25}) {
      Matrix a(n * n), gradient(n);
      std::mt19937 random(3);
      std::normal_distribution<double> normal(0.3, 1);
      for (int count = 0; count < 10; ++count) {
        for (double& g : gradient) g = normal(random);
        for (std::size_t i = 0; i < n * n; ++i) a[i] += gradient[i / n] * gradient[i % n];
      }
      const Root root = roots_of<float>(*backend, {in_float32(a)}, Minimax{},
                                        {.exponent = exponent, .epsilon = 1e-12})
                            .front();
      ASSERT_EQ(root.outcome, kernels::Outcome::computed);
      // Measured: up to 0.09 at exponent 1/2, where it is up to 2.2 with a kappa_max of 2^20, and
      // 0.16 at 1/4. Damping is a hundredth of a percent.
      const Matrix exact = exact_root(a, shift_of(a, 1e9, 0), exponent);
      EXPECT_LE(distance(product(root.matrix, gradient), product(exact, gradient)), 0.2)
          << n << ' ' << exponent;
    }
}

TEST(MinimaxRoot, KeepsItsStatedErrorWithFloat16Products) {
  const std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 2});
  RoundingBackend backend(*cpu);
  for (const std::string kind : {"log_uniform", "power_law", "low_rank"})
    for (const std::int64_t n : {31, 128})
      for (const double kappa : {1e2, 1e3, 1e6})
        for (const double exponent : {0.5, 0.25}) {
          const Matrix a = in_float32(rotated(eigenvalues(kind, n, kappa), 5));
          const double mixed_error =
              error<float>(backend, a, {.kappa_max = kappa, .precision = mixed}, exponent);
          const double split_error =
              error<float>(backend, a, {.kappa_max = kappa, .precision = accurate}, exponent);
          const double float_error =
              error<float>(*cpu, a, {.kappa_max = kappa, .precision = accurate}, exponent);
          const double stated = exponent == 0.5 ? 5e-3 : 3e-3;
          // Of many eigenvalues at the very end of the spectrum, `accurate` alone loses more.
          EXPECT_LE(mixed_error, stated + (kind == "low_rank" ? split_error : 0))
              << kind << ' ' << n << ' ' << kappa << ' ' << exponent;
          EXPECT_LE(split_error, of_two_halves * float_error + 1e-6)
              << kind << ' ' << n << ' ' << kappa << ' ' << exponent;
        }
  EXPECT_GT(backend.split_products, 0);
  EXPECT_GT(backend.half_products, 0);
}

TEST(MinimaxRoot, WorksAtTheLargestConditionWithFloat16Products) {
  const std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 2});
  RoundingBackend backend(*cpu);
  for (const std::string kind : {"log_uniform", "power_law", "low_rank"})
    for (const std::int64_t n : {3, 64, 131})
      for (const double exponent : {1.0, 0.5, 0.25, 1.0 / 6, 0.125, 1.0 / 16}) {
        const Matrix a = in_float32(rotated(eigenvalues(kind, n, 1e7), 7));
        // kappa times float32's rounding is 1/16: the root must be computed, and be near. Errors of
        // (i, j) and (j, i) are the same, and those of halves add what MinimaxPrecision::mixed
        // states.
        EXPECT_LE(error<float>(backend, a, {.kappa_max = 0x1p20}, exponent),
                  std::sqrt(2.0) * exponent / 16 + 3e-3)
            << kind << ' ' << n << ' ' << exponent;
      }
}

}  // namespace
}  // namespace shampoo::test
