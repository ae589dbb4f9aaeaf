// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/solvers/rational.h"
#include "tests/kernels/spectra.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using kernels::Outcome;
using kernels::RootJob;

Matrix product(const Matrix& a, const Matrix& b) {
  const std::int64_t n = side_of(a);
  Matrix c(a.size(), 0);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < n; ++k)
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  return c;
}

Matrix diagonal(const std::vector<double>& d) {
  const std::size_t n = d.size();
  Matrix a(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) a[i * n + i] = d[i];
  return a;
}

template <typename Real>
std::vector<Root> solve(Place place, const std::vector<Matrix>& factors, const Solver& solver,
                        const RootJob& common, int threads = 2, double trace_exponent = 0) {
  const auto backend = backend_with_host_arrays(place, threads);
  return roots_of<Real>(*backend, factors, solver, common, nullptr, trace_exponent);
}

template <typename Real>
Root solve_one(Place place, const Matrix& a, const Solver& solver, RootJob job) {
  return solve<Real>(place, {a}, solver, job).front();
}

/// max |X^p (A + epsilon I) - I|
double residual(const Matrix& root, Matrix a, double epsilon, int p) {
  const std::int64_t n = side_of(a);
  for (std::int64_t i = 0; i < n; ++i) a[i * n + i] += epsilon;
  for (int i = 0; i < p; ++i) a = product(root, a);
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      largest = std::max(largest, std::abs(a[i * n + j] - (i == j ? 1 : 0)));
  return largest;
}

class InverseRootSolver : public ::testing::TestWithParam<std::tuple<std::string, Place>> {
 protected:
  void SetUp() override { require(place()); }

  static Place place() { return std::get<1>(GetParam()); }
  static Solver solver() {
    const std::string& name = std::get<0>(GetParam());
    if (name == "Newton") return CoupledNewton{.tolerance = 1e-14};
    if (name == "HigherOrder")
      return CoupledHigherOrder{.absolute_epsilon = 1e-14, .tolerance = 1e-14};
    if (name == "EigenAfter") return Eigen{.perturb_before = false};
    return Eigen{};
  }
};

TEST_P(InverseRootSolver, InvertsTheRootWithinTheConditionOfTheMatrix) {
  const double epsilon = 1e-14;
  // An emulated device takes its time.
  const bool is_emulated = place() == Place::emulated;
  const std::vector<std::int64_t> sides =
      is_emulated ? std::vector<std::int64_t>{1, 37} : std::vector<std::int64_t>{1, 2, 3, 16, 37};
  const std::vector<int> inverse_exponents =
      is_emulated ? std::vector{2, 4} : std::vector{1, 2, 4, 6};
  const std::vector<double> conditions =
      is_emulated ? std::vector{1e5} : std::vector{1.0, 10.0, 1e3, 1e5};
  for (const std::int64_t n : sides)
    for (const double condition : conditions)
      for (const int p : inverse_exponents) {
        const Matrix a = rotated(eigenvalues("log_uniform", n, condition), 3);
        const Root solved =
            solve_one<double>(place(), a, solver(), {.exponent = 1.0 / p, .epsilon = epsilon});
        EXPECT_EQ(solved.outcome, Outcome::computed);
        // An error of n machine epsilons in A moves X^p A by at most that times the condition;
        // an iteration adds about one more for each of its (at most 60) steps.
        const double bound =
            60 * static_cast<double>(n) * condition * std::numeric_limits<double>::epsilon();
        EXPECT_LE(residual(solved.matrix, a, epsilon, p), bound)
            << n << ' ' << condition << ' ' << p;
      }
}

TEST_P(InverseRootSolver, GivesTheSameBitsInAnyBatchOnAnyNumberOfThreads) {
  // An emulated device takes its time, and has no threads: two sides, and two places in a batch.
  const bool is_emulated = place() == Place::emulated;
  const std::vector<int> batches =
      is_emulated ? std::vector{2, 3} : std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<int> threads_of = is_emulated ? std::vector{1} : std::vector{1, 2, 3};
  std::vector<Matrix> all;
  for (unsigned seed = 1; static_cast<int>(seed) <= batches.back(); ++seed)
    all.push_back(rotated(eigenvalues("log_uniform", seed % 3 == 0 ? 17 : 24, 100.0 * seed), seed));
  const RootJob job{.exponent = 0.25, .epsilon = 1e-6};
  std::vector<Matrix> alone;
  for (const Matrix& a : all) alone.push_back(solve_one<float>(place(), a, solver(), job).matrix);
  for (const int batch : batches)
    for (const int threads : threads_of) {
      const auto solved =
          solve<float>(place(), {all.begin(), all.begin() + batch}, solver(), job, threads);
      for (int i = 0; i < batch; ++i)
        EXPECT_EQ(solved[static_cast<std::size_t>(i)].matrix, alone[static_cast<std::size_t>(i)]);
    }
}

INSTANTIATE_TEST_SUITE_P(All, InverseRootSolver,
                         ::testing::Combine(::testing::Values("Eigen", "EigenAfter", "Newton",
                                                              "HigherOrder"),
                                            ::testing::ValuesIn(all_places)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param) + "_" +
                                  name_of(std::get<1>(tested.param));
                         });

class AtOnePlace : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }
};
class EigenRoot : public AtOnePlace {};
class CoupledIterations : public AtOnePlace {};

/// Both sides of every element, in units of the larger matrix.
void expect_near(const Matrix& found, const Matrix& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance * largest) << i;
}

constexpr double tight = 64 * std::numeric_limits<double>::epsilon();

TEST_P(EigenRoot, AddsEpsilonBeforeOrAfterTheDecomposition) {
  // lambda = (0.1, 3.1): before, A + 0.9 I = diag(1, 4); after, the shift needs epsilon = 0.9 too.
  const Matrix a = diagonal({0.1, 3.1});
  const RootJob job{.exponent = 0.5, .epsilon = 0.9};
  expect_near(solve_one<double>(GetParam(), a, Eigen{}, job).matrix, diagonal({1, 0.5}), tight);
  expect_near(solve_one<double>(GetParam(), a, Eigen{.perturb_before = false}, job).matrix,
              diagonal({1, 0.5}), tight);
}

TEST_P(EigenRoot, ShiftsAnIndefiniteMatrixUntilItsLeastEigenvalueIsEpsilon) {
  // diag(-5, 5) + I has eigenvalues -4, 6: less than epsilon = 1, so they become 1, 11.
  const Root before =
      solve_one<double>(GetParam(), diagonal({-5, 5}), Eigen{}, {.exponent = 1, .epsilon = 1});
  expect_near(before.matrix, diagonal({1, 1.0 / 11}), tight);
  EXPECT_EQ(before.clamped, 2);
  // Afterwards: (-5, 5) - (-5) + 1 = (1, 11).
  const Root after = solve_one<double>(
      GetParam(), diagonal({-5, 5}), Eigen{.perturb_before = false}, {.exponent = 1, .epsilon = 1});
  expect_near(after.matrix, diagonal({1, 1.0 / 11}), tight);
}

TEST_P(EigenRoot, DropsTheNullSpaceAsAPseudoInverse) {
  for (const std::optional<double> tolerance : {std::optional<double>(), std::optional(1e-6)}) {
    const Eigen solver{.pseudo_inverse = PseudoInverse{.relative_tolerance = tolerance}};
    expect_near(
        solve_one<double>(GetParam(), diagonal({1, 4, 0}), solver, {.exponent = 0.5}).matrix,
        diagonal({1, 0.5, 0}), tight);
  }
}

TEST_P(EigenRoot, RaisesSmallEigenvaluesToTheRelativeFloor) {
  const Root solved =
      solve_one<double>(GetParam(), diagonal({100, 1e-6, 1}), Eigen{.relative_floor = 0.01},
                        {.exponent = 1, .epsilon = 1e-30});
  expect_near(solved.matrix, diagonal({0.01, 1, 1}), tight);
  EXPECT_EQ(solved.clamped, 1);
}

TEST_P(EigenRoot, ScalesByTheTrace) {
  // A / trace(A)^(1/2), trace = 16: diag(1, 3) after division by 4 and the root of order 1.
  const auto solved = solve<double>(GetParam(), {diagonal({4, 12})}, Eigen{},
                                    {.exponent = 1, .epsilon = 1e-30}, 1, 0.5);
  expect_near(solved.front().matrix, diagonal({1, 1.0 / 3}), tight);
}

TEST_P(EigenRoot, OfZerosIsZeroAsAPseudoInverseThatIsScaledByTheTrace) {
  const auto solved =
      solve<float>(GetParam(), {Matrix(4, 0)}, Eigen{.pseudo_inverse = PseudoInverse{}},
                   {.exponent = 1}, 1, 0.5);
  EXPECT_EQ(solved.front().outcome, Outcome::computed);
  EXPECT_EQ(solved.front().matrix, Matrix(4, 0));
}

TEST_P(EigenRoot, OfAZeroMatrixIsThatOfEpsilon) {
  expect_near(
      solve_one<double>(GetParam(), Matrix(9, 0), Eigen{}, {.exponent = 0.25, .epsilon = 1e-8})
          .matrix,
      diagonal({100, 100, 100}), tight);
}

TEST_P(EigenRoot, KeepsTheOldRootOfAMatrixThatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto solved =
      solve<float>(GetParam(), {diagonal({1, 4}), diagonal({nan, 1}), diagonal({4, 1})}, Eigen{},
                   {.exponent = 0.5, .epsilon = 1e-12});
  EXPECT_EQ(solved[0].outcome, Outcome::computed);
  EXPECT_EQ(solved[1].outcome, Outcome::failed);
  EXPECT_EQ(solved[2].outcome, Outcome::computed);
  EXPECT_EQ(solved[1].matrix, Matrix(4, 0)) << "what the test put there";
}

TEST_P(CoupledIterations, GiveWayToAnEigendecompositionWhereTheyDiverge) {
  // Zero iterations leave X = z^(1/p) I, far from a root.
  const Solver none = CoupledHigherOrder{.absolute_epsilon = 1e-12, .max_iterations = 0};
  const Root solved =
      solve_one<double>(GetParam(), diagonal({1, 1e-4}), none, {.exponent = 0.5, .epsilon = 1e-12});
  EXPECT_EQ(solved.outcome, Outcome::by_eigenvalues);
  expect_near(solved.matrix, diagonal({1, 100}), 1e-7);
}

TEST_P(CoupledIterations, OfZerosWithoutAnAbsoluteEpsilonTakeThatOfTheJob) {
  const Solver relative = CoupledHigherOrder{.relative_epsilon = 1e-6, .absolute_epsilon = 0};
  const Root solved =
      solve_one<float>(GetParam(), Matrix(4, 0), relative, {.exponent = 0.5, .epsilon = 1e-4});
  EXPECT_EQ(solved.outcome, Outcome::by_eigenvalues);
  expect_near(solved.matrix, diagonal({100, 100}), 1e-6);
}

TEST_P(CoupledIterations, TakeRationalRoots) {
  // A^(-3/4) of diag(1, 16) = diag(1, 1/8)
  const Solver solver = CoupledHigherOrder{.absolute_epsilon = 1e-15, .tolerance = 1e-14};
  expect_near(solve_one<double>(GetParam(), diagonal({1, 16}), solver, {.exponent = 0.75}).matrix,
              diagonal({1, 0.125}), 1e3 * std::numeric_limits<double>::epsilon());
}

constexpr auto place_name = [](const auto& tested) { return name_of(tested.param); };
INSTANTIATE_TEST_SUITE_P(Everywhere, EigenRoot, ::testing::ValuesIn(all_places), place_name);
INSTANTIATE_TEST_SUITE_P(Everywhere, CoupledIterations, ::testing::ValuesIn(all_places),
                         place_name);

TEST(SolverWorkspace, StartsTheMatricesOfEverySideAtMultiplesOf256Bytes) {
  const auto cpu = backend_at(Place::cpu);
  std::vector<RootJob> jobs;
  for (const std::int64_t side : {9, 7, 7, 5, 1}) jobs.push_back({.side = side});
  kernels::StagedArrays staged(*cpu);
  kernels::RootTable table;
  table.reserve(staged, jobs);
  kernels::SolverWorkspace workspace(*cpu, Type::float32, 2);
  workspace.reserve(table);

  std::size_t next = 0;
  EXPECT_TRUE(workspace.take({}, next));
  EXPECT_EQ(next, jobs.size());

  const std::span<const kernels::SquareMatrixBatch> groups = workspace.matrix(1);
  ASSERT_EQ(groups.size(), 4u);
  for (std::size_t g = 1; g < groups.size(); ++g) {
    const kernels::SquareMatrixBatch& before = groups[g - 1];
    const auto* const first = static_cast<const char*>(groups[0].data);
    const auto* const data = static_cast<const char*>(groups[g].data);
    EXPECT_EQ((data - first) % 256, 0);
    EXPECT_GE(data, static_cast<const char*>(before.data) +
                        before.count * before.side * before.side * std::int64_t{sizeof(float)});
  }
}

TEST(Rational, IsFoundWhereTheRootIsOne) {
  const auto is = [](double root, int p, int q) {
    const auto found = kernels::rational(root);
    return found && found->p == p && found->q == q;
  };
  for (int order = 1; order <= 8; ++order) EXPECT_TRUE(is(1 / (1.0 / (2 * order)), 2 * order, 1));
  EXPECT_TRUE(is(1 / 0.75, 4, 3));
  EXPECT_TRUE(is(1 / 0.3, 10, 3));
  EXPECT_FALSE(kernels::rational(std::sqrt(2.0)));
  EXPECT_FALSE(kernels::rational(0));
}

}  // namespace
}  // namespace shampoo::test
