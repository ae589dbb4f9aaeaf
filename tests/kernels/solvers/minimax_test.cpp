// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu_backend.h"
#include "kernels/solvers/rational.h"
#include "tests/kernels/rounding_backend.h"
#include "tests/kernels/spectra.h"
#include "tests/support/backends.h"

namespace shampoo::test {
namespace {

using kernels::Outcome;
using enum MinimaxPrecision;

/// What the solver adds to the diagonal: max(epsilon, largest / kappa_max) by its own bound.
double shift_of(const Matrix& a, double kappa_max, double epsilon) {
  const std::int64_t n = side_of(a);
  double row_sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      double square = 0;
      for (std::int64_t k = 0; k < n; ++k) square += a[i * n + k] * a[j * n + k];
      squares += square * square;
      sum += std::abs(a[i * n + j]);
    }
    row_sum = std::max(row_sum, sum);
  }
  const double largest = (1 + 0x1p-10) * std::min(row_sum, std::pow(squares, 0.25));
  return std::max(epsilon, largest / kappa_max);
}

/// (A + shift I)^-exponent by an eigendecomposition in float64.
Matrix exact_root(const Matrix& a, double shift, double exponent) {
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 1});
  const std::int64_t n = side_of(a);
  Matrix q = a, root(a.size());
  std::vector<double> values(static_cast<std::size_t>(n));
  const kernels::SquareMatrixBatch group{Type::float64, n, 1, 0, q.data(), values.data()};
  const kernels::SquareMatrixBatch result{Type::float64, n, 1, 0, root.data(), nullptr};
  std::int32_t failed = 0;
  backend->reserve({}, Type::float64, {n});
  backend->eigh({&group, 1}, kernels::Eigensolver::divide_and_conquer, &failed);
  EXPECT_EQ(failed, 0);
  for (double& value : values) value = std::pow(value + shift, -exponent);
  backend->assemble({&group, 1}, {&result, 1});
  return root;
}

/// |X - Y|_F / |Y|_F
double distance(const Matrix& x, const Matrix& y) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += std::pow(x[i] - y[i], 2);
    size += std::pow(y[i], 2);
  }
  return std::sqrt(difference / size);
}

Matrix in_float32(Matrix a) {
  for (double& x : a) x = static_cast<double>(static_cast<float>(x));
  return a;
}

template <typename Real>
double error(Backend& backend, const Matrix& a, const Minimax& solver, double exponent) {
  const double epsilon = 1e-30;
  const Root root =
      roots_of<Real>(backend, {a}, solver, {.exponent = exponent, .epsilon = epsilon}).front();
  EXPECT_EQ(root.outcome, Outcome::computed);
  return distance(root.matrix, exact_root(a, shift_of(a, solver.kappa_max, epsilon), exponent));
}

constexpr double half_float = std::numeric_limits<float>::epsilon() / 2;

TEST(MinimaxRoot, InFloat64IsThatOfAnEigendecomposition) {
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 2});
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
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 2});
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

TEST(MinimaxRoot, InFloat32DampsNoLessThanItsRoundingAllows) {
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 1});
  const Matrix a = in_float32(rotated(eigenvalues("low_rank", 31, 1e7), 3));
  const auto root = [&](double kappa_max) {
    return roots_of<float>(*backend, {a}, Minimax{.kappa_max = kappa_max}, {.exponent = 0.25})
        .front()
        .matrix;
  };
  EXPECT_EQ(root(1e7), root(0x1p20));
  EXPECT_NE(root(1e6), root(0x1p20));
}

class MinimaxAtPlace : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, MinimaxAtPlace, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(MinimaxAtPlace, KeepsItsStatedErrors) {
  const std::unique_ptr<Backend> backend = backend_with_host_arrays(GetParam());
  const std::unique_ptr<Backend> cpu = cpu_backend({.threads = 2});
  constexpr double kappa = 1e6;
  for (const std::string kind : {"log_uniform", "power_law"})
    for (const std::int64_t n : {31, 67, 130})
      for (const double exponent : {0.5, 0.25}) {
        const Matrix a = in_float32(rotated(eigenvalues(kind, n, kappa), 5));
        EXPECT_LE(error<float>(*backend, a, {.kappa_max = kappa, .precision = mixed}, exponent),
                  exponent == 0.5 ? 5e-3 : 2e-3)
            << kind << ' ' << n << ' ' << exponent;
        const Minimax split{.kappa_max = kappa, .precision = accurate};
        // Two terms of 11 bits have 22, a quarter of float32's resolution.
        EXPECT_LE(error<float>(*backend, a, split, exponent),
                  4 * error<float>(*cpu, a, split, exponent) + 1e-6)
            << kind << ' ' << n << ' ' << exponent;
      }
}

TEST(MinimaxRoot, KeepsItsStatedErrorWithFloat16Products) {
  const std::unique_ptr<Backend> cpu = cpu_backend({.threads = 2});
  RoundingBackend backend(*cpu);
  for (const std::string kind : {"log_uniform", "power_law", "low_rank"})
    for (const std::int64_t n : {31, 128})
      for (const double kappa : {1e3, 1e6})
        for (const double exponent : {0.5, 0.25}) {
          const Matrix a = in_float32(rotated(eigenvalues(kind, n, kappa), 5));
          const double mixed_error =
              error<float>(backend, a, {.kappa_max = kappa, .precision = mixed}, exponent);
          const double split_error =
              error<float>(backend, a, {.kappa_max = kappa, .precision = accurate}, exponent);
          const double float_error =
              error<float>(*cpu, a, {.kappa_max = kappa, .precision = accurate}, exponent);
          const double stated = exponent == 0.5 ? 5e-3 : 2e-3;
          // Of many eigenvalues at the very end of the spectrum, float32 alone loses more.
          EXPECT_LE(mixed_error, stated + (kind == "low_rank" ? float_error : 0))
              << kind << ' ' << n << ' ' << kappa << ' ' << exponent;
          // Two terms of 11 bits have 22, a quarter of float32's resolution.
          EXPECT_LE(split_error, 4 * float_error + 1e-6)
              << kind << ' ' << n << ' ' << kappa << ' ' << exponent;
        }
  EXPECT_GT(backend.products[0], 0);
  EXPECT_GT(backend.products[1], 0);
}

TEST(MinimaxRoot, WorksAtTheLargestConditionWithFloat16Products) {
  const std::unique_ptr<Backend> cpu = cpu_backend({.threads = 2});
  RoundingBackend backend(*cpu);
  for (const std::string kind : {"log_uniform", "power_law", "low_rank"})
    for (const std::int64_t n : {3, 64, 131})
      for (const double exponent : {1.0, 0.5, 0.25, 1.0 / 6, 0.125, 1.0 / 16}) {
        const Matrix a = in_float32(rotated(eigenvalues(kind, n, 1e7), 7));
        // kappa times float32's rounding is 1/16: the root must be computed, and be near.
        EXPECT_LE(error<float>(backend, a, {.kappa_max = 0x1p20}, exponent), exponent / 16)
            << kind << ' ' << n << ' ' << exponent;
      }
}

TEST(MinimaxRoot, HalvesTheProductsThatNeedFloat32) {
  const std::unique_ptr<Backend> cpu = cpu_backend({.threads = 1});
  RoundingBackend backend(*cpu);
  const Matrix a = rotated(eigenvalues("log_uniform", 5, 1e6), 1);
  roots_of<float>(backend, {a, a, a}, Minimax{.kappa_max = 1e6}, {.exponent = 0.25});
  // Six steps of five products; the first lacks X N, and the last lacks N^4 M.
  EXPECT_EQ(backend.products[0], 14);
  EXPECT_EQ(backend.products[1], 12);
}

TEST(MinimaxRoot, OfSpecialMatricesIsThatOfTheDampedOne) {
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 2});
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
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 2});
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
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 2});
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
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 1});
  const Root root =
      roots_of<float>(*backend, {{1, 0, 0, -0.5}}, Minimax{}, {.exponent = 0.25, .epsilon = 1e-8})
          .front();
  EXPECT_EQ(root.outcome, Outcome::failed);
  EXPECT_EQ(root.matrix, Matrix(4, 0));
}

TEST(MinimaxRoot, IsNotStoredWhereTheStepIsRefused) {
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 1});
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
  // More matrices than one chunk of 64 MiB holds, of two exponents.
  constexpr std::int64_t n = 128;
  constexpr std::size_t count = 1100, stride = n * (n + 1);
  const std::unique_ptr<Backend> cpu = cpu_backend({.threads = 2});
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
  cpu->reserve({}, Type::float32, {n});
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
    const double largest = static_cast<double>(1 + m % 3);
    const double expected = std::pow(largest * (1 + (1 + 0x1p-10) / 1e2), -jobs[m].exponent);
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
