// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/solvers/rational.h"
#include "tests/kernels/rounding_backend.h"
#include "tests/kernels/solvers/minimax_error.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

using kernels::Outcome;

TEST(MinimaxRoot, InFloat32DampsNoLessThanItsRoundingAllows) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  const Matrix a = in_float32(rotated(eigenvalues("low_rank", 31, 1e7), 3));
  const auto root = [&](double kappa_max) {
    return roots_of<float>(*backend, {a}, Minimax{.kappa_max = kappa_max}, {.exponent = 0.25})
        .front()
        .matrix;
  };
  EXPECT_EQ(root(1e7), root(0x1p20));
  EXPECT_NE(root(1e6), root(0x1p20));
}

TEST(MinimaxRoot, HalvesTheProductsThatNeedFloat32) {
  const std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 1});
  RoundingBackend backend(*cpu);
  const Matrix a = rotated(eigenvalues("log_uniform", 5, 1e6), 1);
  roots_of<float>(backend, {a, a, a}, Minimax{.kappa_max = 1e6}, {.exponent = 0.25});
  // Steps have degrees 4, 4, 4, 2, 2: two products, or one, for N, one for X N, three for N^4 M.
  // The first has no X N, and the last no N^4 M. From the third on all are halves, as X N is
  // before.
  EXPECT_EQ(backend.split_products, 5 + 5);
  EXPECT_EQ(backend.half_products, 1 + 6 + 5 + 2);
}

TEST(MinimaxRoot, OfSpecialMatricesIsThatOfTheDampedOne) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  const auto root_of = [&](const Matrix& a, double epsilon) {
    return roots_of<float>(*backend, {a}, Minimax{}, {.exponent = 0.25, .epsilon = epsilon})
        .front();
  };
  const auto expect_multiple_of_identity = [](const Root& root, double value) {
    EXPECT_EQ(root.outcome, Outcome::computed);
    for (std::int64_t i = 0, n = side_of(root.matrix); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        EXPECT_NEAR(root.matrix[i * n + j], i == j ? value : 0, 4e-4 * value);
  };
  const Matrix zero(9, 0), identity = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  expect_multiple_of_identity(root_of(zero, 1e-8), 100);
  expect_multiple_of_identity(root_of(zero, 0), 1);
  expect_multiple_of_identity(root_of(zero, 0x1p-126), 0x1p31 * std::sqrt(2));
  EXPECT_EQ(root_of(zero, 1e-8).clamped, 0);
  EXPECT_EQ(root_of(zero, 0).clamped, 1);
  expect_multiple_of_identity(root_of(identity, 1e-12), 1);
  expect_multiple_of_identity(root_of(identity, 15), 0.5);
  expect_multiple_of_identity(root_of({81}, 1e-12), 1.0 / 3);
  EXPECT_EQ(root_of(identity, 1e-12).clamped, 1);
  EXPECT_EQ(root_of(identity, 1e-3).clamped, 0);

  // v v^T for v = (1, 2, 2): 9 along v, nothing else.
  const Matrix rank_one = {1, 2, 2, 2, 4, 4, 2, 4, 4};
  EXPECT_LE(error<float>(*backend, rank_one, {.kappa_max = 1e4}, 0.25), 4e-4);
}

TEST(MinimaxRoot, DoesNotDependOnTheScale) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  const Matrix a = in_float32(rotated(eigenvalues("power_law", 17, 1e4), 2));
  const auto root_of = [&](double scale) {
    Matrix scaled = a;
    for (double& x : scaled) x *= scale;
    return roots_of<float>(*backend, {scaled}, Minimax{}, {.exponent = 0.5, .epsilon = 0}).front();
  };
  const Root one = root_of(1);
  for (const double scale : {0x1p-110, 0x1p-20, 0x1p90, 0x1p126}) {
    Root other = root_of(scale);
    EXPECT_EQ(other.outcome, Outcome::computed);
    for (double& x : other.matrix) x *= std::sqrt(scale);
    EXPECT_EQ(other.matrix, one.matrix) << scale << ", an even power of 2";
  }
  for (const double scale : {1e-30, 1e30}) {
    Root other = root_of(scale);
    EXPECT_EQ(other.outcome, Outcome::computed);
    for (double& x : other.matrix) x *= std::sqrt(scale);
    EXPECT_LE(distance(other.matrix, one.matrix), 1e-3) << scale;
  }
}

TEST(MinimaxRoot, OfAMatrixThatIsNotFiniteStaysAsItWasAndTouchesNoOther) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  const Matrix good = rotated(eigenvalues("power_law", 5, 1e4), 2);
  const kernels::RootJob job{.exponent = 0.25, .epsilon = 1e-8};
  const Root alone = roots_of<float>(*backend, {good}, Minimax{}, job).front();
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Matrix broken = good;
    broken[7] = broken[11] = bad;
    const auto roots = roots_of<float>(*backend, {good, broken, good}, Minimax{}, job);
    EXPECT_EQ(roots[0].matrix, alone.matrix);
    EXPECT_EQ(roots[2].matrix, alone.matrix);
    EXPECT_EQ(roots[1].outcome, Outcome::failed);
    EXPECT_EQ(roots[1].matrix, Matrix(25, 0)) << "what the test put there";
    EXPECT_EQ(roots[1].clamped, 0);
  }
}

TEST(MinimaxRoot, ThatDivergesStaysAsItWas) {
  // An eigenvalue far below 0 grows without end.
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  const Root root =
      roots_of<float>(*backend, {{1, 0, 0, -0.5}}, Minimax{}, {.exponent = 0.25, .epsilon = 1e-8})
          .front();
  EXPECT_EQ(root.outcome, Outcome::failed);
  EXPECT_EQ(root.matrix, Matrix(4, 0));
}

TEST(MinimaxRoot, IsNotStoredWhereTheStepIsRefused) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  const Matrix a = rotated(eigenvalues("power_law", 5, 1e4), 2);
  for (const std::int32_t proceed : {0, 1}) {
    const Root root =
        roots_of<float>(*backend, {a}, Minimax{}, {.exponent = 0.25, .epsilon = 1e-8}, &proceed)
            .front();
    EXPECT_EQ(root.matrix == Matrix(25, 0), proceed == 0);
  }
}

/// Says when the host waits.
class WaitingBackend : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  void synchronize() override { ++waits; }
  int waits = 0;
};

TEST(MinimaxRoot, IsQueuedWithoutAWaitInAnyNumberOfChunks) {
  // More matrices than one chunk holds, of two exponents.
  constexpr std::int64_t n = 128;
  constexpr std::size_t count = 100, stride = n * (n + 1);
  const std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 2});
  std::vector<float> pairs(count * stride, 0);
  std::vector<kernels::RootJob> jobs;
  for (std::size_t m = 0; m < count; ++m) {
    for (std::int64_t i = 0; i < n; ++i)
      pairs[m * stride + static_cast<std::size_t>(i * (n + 2))] = static_cast<float>(1 + m % 3);
    jobs.push_back({.pair = pairs.data() + m * stride,
                    .side = n,
                    .exponent = m % 5 == 0 ? 0.5 : 0.25,
                    .epsilon = 1e-3});
  }
  constexpr std::size_t bytes = n * n * sizeof(float);
  ASSERT_LT(cpu->chunk_bytes(bytes), count * bytes);
  WaitingBackend backend(*cpu);
  RootSolver solver(backend, Type::float32, Minimax{.kappa_max = 1e2}, 0, jobs);
  EXPECT_FALSE(solver.roots().waits());

  solver.place(jobs);
  solver.roots().enqueue();

  EXPECT_EQ(backend.waits, 0);
  solver.roots().collect(jobs);
  for (std::size_t m = 0; m < count; ++m) {
    ASSERT_EQ(jobs[m].outcome, Outcome::computed);
    ASSERT_EQ(jobs[m].clamped, 1);
    const double eigenvalue = static_cast<double>(1 + m % 3);
    const double largest = (1 + 0x1p-10) * std::pow(double{n}, 0.25) * eigenvalue;
    const double expected = std::pow(eigenvalue + largest / 1e2, -jobs[m].exponent);
    ASSERT_NEAR(pairs[m * stride + 1], expected, 4e-4 * expected) << m;
  }
}

TEST(MinimaxRoot, TakesExponentsOfSmallFractions) {
  const auto is = [](double exponent, int p, int q) {
    const auto root = kernels::minimax_root(exponent);
    return root && root->p == p && root->q == q;
  };
  for (int order = 1; order <= 32; ++order) EXPECT_TRUE(is(1 / (2.0 * order), 2 * order, 1));
  EXPECT_TRUE(is(0.75, 4, 3));
  EXPECT_TRUE(is(1, 2, 2)) << "the range of A^-1 is too wide for products";
  for (const double exponent : {1.5, 5.0 / 7, 1.0 / 65, 0.3183, 0.0})
    EXPECT_FALSE(kernels::minimax_root(exponent)) << exponent;
}

}  // namespace
}  // namespace shampoo::test
