// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/simd/vector_kernels.h"
#include "kernels/solvers/inverse_root.h"
#include "kernels/solvers/partial_fractions.h"
#include "tests/kernels/solvers/minimax_error.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using kernels::Outcome;
using kernels::PartialFraction;

TEST(PartialFractions, SumToThePower) {
  for (const double exponent : {1e-12, 1e-3, 1.0 / 8, 0.25, 0.5, 0.75, 0.999, 1 - 1e-12})
    for (const double kappa : {1.5, 0x1p21, 1e13})
      for (const double tolerance : {1e-3, 1e-6, 1e-14}) {
        const std::vector<PartialFraction> fractions =
            kernels::partial_fractions(exponent, kappa, tolerance);
        EXPECT_LE(fractions.size(), kernels::most_partial_fractions);
        // Sums of positive numbers in any order round by less than one rounding for each.
        const double bound = tolerance + static_cast<double>(fractions.size()) *
                                             std::numeric_limits<double>::epsilon();
        for (int i = 0; i <= 500; ++i) {
          const double z = std::pow(kappa, -i / 500.0);
          double sum = 0;
          for (const PartialFraction& f : fractions) {
            ASSERT_GT(f.pole, 0);
            ASSERT_GT(f.weight, 0);
            sum += f.weight / (z + f.pole);
          }
          ASSERT_NEAR(sum * std::pow(z, exponent), 1, bound)
              << exponent << ' ' << kappa << ' ' << tolerance << ' ' << z;
        }
      }
}

TEST(SumsOfResolvents, HaveTheSameBitsAtEveryLevel) {
  constexpr std::int64_t n = 131;
  std::vector<double> d(n, 0.5), e(n - 1);
  for (std::size_t i = 0; i + 1 < n; ++i) e[i] = 0.2 * std::sin(static_cast<double>(3 * i));
  const std::vector<double> poles = {1e-9, 1e-3, 1, 50, 1e4}, weights = {1e-6, 1e-2, 1, 20, 1e3};
  const auto sum = [&](const kernels::VectorLevel& level) {
    const auto count = static_cast<std::int64_t>(poles.size());
    std::vector<double> pivots(static_cast<std::size_t>(n * count));
    std::vector<float> scratch(static_cast<std::size_t>(kernels::resolvent_scratch(n, count)));
    std::vector<float> x(n * n);
    level.in_float.sum_resolvents(
        {.side = n, .d = d.data(), .e = e.data()},
        {.count = count, .poles = poles.data(), .weights = weights.data()}, pivots.data(),
        scratch.data(), x.data());
    return x;
  };
  EXPECT_EQ(sum(kernels::base_level()), sum(kernels::best_level()));
}

/// |X - Y|_F / |Y|_F with X by the solver and Y by an eigendecomposition in float64.
template <typename Real>
double error_of(const Matrix& a, double epsilon, double exponent) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  const Root root =
      roots_of<Real>(*backend, {a}, Tridiagonal{}, {.exponent = exponent, .epsilon = epsilon})
          .front();
  EXPECT_EQ(root.outcome, Outcome::computed);
  EXPECT_EQ(root.clamped, 0);
  return distance(root.matrix, exact_root(a, epsilon, exponent));
}

/// Each of `side` reflections subtracts two products from an element: eigenvalues move by up to
/// 2 side roundings of the largest, and, these being of either sign, by about the root of that; the
/// least is 1 / condition of it, and the root moves by the exponent times as much.
double bound_of(std::int64_t n, double condition, double exponent, double rounding) {
  return exponent * condition * std::sqrt(2 * static_cast<double>(n)) * rounding;
}

TEST(TridiagonalRoot, IsThatOfAnEigendecomposition) {
  for (const std::string kind : {"log_uniform", "power_law", "low_rank"})
    for (const std::int64_t n : {1, 2, 3, 4, 31, 34, 35, 64, 66, 131, 257})
      for (const double exponent : {0.5, 0.25, 1.0 / 6, 0.9}) {
        const std::string name = kind + ' ' + std::to_string(n) + ' ' + std::to_string(exponent);
        const Matrix a = rotated(eigenvalues(kind, n, 1e4), 3);
        EXPECT_LE(error_of<double>(a, 1e-6, exponent), 2e-14 + bound_of(n, 1e6, exponent, 0x1p-53))
            << name;
        // The power by fractions, 1e-6, and products of float32 matrices.
        EXPECT_LE(error_of<float>(in_float32(a), 1e-4, exponent),
                  1e-5 + bound_of(n, 1e4, exponent, 0x1p-24))
            << name;
      }
}

TEST(TridiagonalRoot, DampsByABoundOfTheLargestEigenvalue) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  const Matrix a = in_float32(rotated(eigenvalues("low_rank", 40, 1), 3));
  const Root root = roots_of<float>(*backend, {a}, Tridiagonal{.kappa_max = 1e4},
                                    {.exponent = 0.5, .epsilon = 1e-12})
                        .front();
  EXPECT_EQ(root.outcome, Outcome::computed);
  EXPECT_EQ(root.clamped, 1);
  // Of 40 eigenvalues 6 are 1 and 34 are 0; the bound is between 1 and 3.
  double trace = 0;
  for (std::size_t i = 0; i < 40; ++i) trace += root.matrix[i * 41];
  EXPECT_LE(trace, 6 + 34 * 1.01 * 1e2);
  EXPECT_GE(trace, 34 * 0.99 * 1e2 / std::sqrt(3));
}

TEST(TridiagonalRoot, OfZerosIsThatOfEpsilon) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  const Root root =
      roots_of<float>(*backend, {Matrix(9, 0)}, Tridiagonal{}, {.exponent = 0.25, .epsilon = 1e-8})
          .front();
  EXPECT_EQ(root.outcome, Outcome::computed);
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_NEAR(root.matrix[i], i % 4 == 0 ? 100 : 0, 100 * 1e-6) << i;
}

TEST(TridiagonalRoot, DoesNotDependOnTheScale) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  const Matrix a = in_float32(rotated(eigenvalues("power_law", 37, 1e4), 2));
  const auto root_of = [&](double scale) {
    Matrix scaled = a;
    for (double& x : scaled) x *= scale;
    Root root = roots_of<float>(*backend, {scaled}, Tridiagonal{},
                                {.exponent = 0.5, .epsilon = scale * 1e-3})
                    .front();
    EXPECT_EQ(root.outcome, Outcome::computed);
    for (double& x : root.matrix) x *= std::sqrt(scale);
    return root.matrix;
  };
  const Matrix one = root_of(1);
  for (const double scale : {0x1p-110, 0x1p-20, 0x1p90, 0x1p120})
    // An even power of 2 changes nothing but the last rounding.
    EXPECT_LE(distance(root_of(scale), one), 0x1p-23) << scale;
}

TEST(TridiagonalRoot, GivesWayToAnEigendecompositionWhereTheFactorIsIndefinite) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  const Root root = roots_of<float>(*backend, {{1, 0, 0, -0.5}}, Tridiagonal{},
                                    {.exponent = 0.25, .epsilon = 1e-8})
                        .front();
  EXPECT_EQ(root.outcome, Outcome::by_eigenvalues);
}

TEST(TridiagonalRoot, OfAMatrixThatIsNotFiniteStaysAsItWasAndTouchesNoOther) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  const Matrix good = rotated(eigenvalues("power_law", 5, 1e4), 2);
  const kernels::RootJob job{.exponent = 0.25, .epsilon = 1e-8};
  const Root alone = roots_of<float>(*backend, {good}, Tridiagonal{}, job).front();
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Matrix broken = good;
    broken[7] = broken[11] = bad;
    const auto roots = roots_of<float>(*backend, {good, broken, good}, Tridiagonal{}, job);
    EXPECT_EQ(roots[0].matrix, alone.matrix);
    EXPECT_EQ(roots[2].matrix, alone.matrix);
    EXPECT_EQ(roots[1].outcome, Outcome::failed);
    EXPECT_EQ(roots[1].matrix, Matrix(25, 0)) << "what the test put there";
  }
}

TEST(TridiagonalRoot, IsForTheCpuAndExponentsBelow1) {
  const auto chosen = [](const kernels::Backend& backend, const Solver& solver, double exponent) {
    return kernels::resolved(solver, backend, Type::float32, {&exponent, 1});
  };
  const std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 1});
  EXPECT_EQ(chosen(*cpu, Automatic{}, 0.25), Solver(Tridiagonal{}));
  EXPECT_TRUE(std::holds_alternative<Eigen>(chosen(*cpu, Automatic{}, 1)));
  const std::unique_ptr<kernels::Backend> device = backend_with_host_arrays(Place::emulated);
  EXPECT_EQ(chosen(*device, Automatic{}, 0.25), Solver(Minimax{}));
  EXPECT_THROW(chosen(*device, Tridiagonal{}, 0.25), std::invalid_argument);
}

}  // namespace
}  // namespace shampoo::test
