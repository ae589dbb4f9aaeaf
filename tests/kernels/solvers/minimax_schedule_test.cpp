// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/minimax_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shampoo::test {
namespace {

using kernels::minimax_schedule;
using kernels::MinimaxStep;
using kernels::Widening;
using Table = std::vector<std::array<double, 3>>;

/// Published coefficients, which were found by an exchange over dense grids, with eigenvalues of M
/// widened by 1 % at both ends.
void expect_table(int p, double kappa, const Table& table) {
  const double inverse = 1.0 / p;
  const Widening widening{std::pow(0.99, inverse), std::pow(1.01, inverse)};
  const std::vector<MinimaxStep> steps = minimax_schedule(p, kappa, 3e-4, 2, widening);
  ASSERT_EQ(steps.size(), table.size());
  // A grid finds extrema to about 1e-5; what that moves grows from step to step.
  for (std::size_t s = 0; s < table.size(); ++s)
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(steps[s].coefficients[i], table[s][i], 1e-4 * std::abs(table[s][i])) << s;
}

TEST(MinimaxSchedule, GivesThePublishedCoefficients) {
  expect_table(4, 1e2,
               {{2.572897, -4.822019, 3.428807},
                {1.44785, -0.5793662, 0.1384516},
                {1.406524, -0.5625896, 0.1560656}});
  expect_table(4, 1e6,
               {{4.538047, -14.05416, 11.28213},
                {2.182964, -0.531581, 0.035422},
                {1.909807, -0.569446, 0.0533839},
                {1.581232, -0.5990153, 0.100399},
                {1.417872, -0.5678684, 0.1506298},
                {1.406279, -0.5625223, 0.1562435}});
  expect_table(4, 1e7,
               {{4.708138, -14.87118, 11.98263},
                {2.296031, -0.5180431, 0.03072418},
                {2.098499, -0.5427367, 0.03979956},
                {1.789418, -0.5855061, 0.06602036},
                {1.493563, -0.5906893, 0.123095},
                {1.408136, -0.5633138, 0.1551974}});
  expect_table(2, 1e6,
               {{8.428725, -24.7378, 18.17291},
                {4.163672, -3.064006, 0.5665692},
                {3.950816, -2.917356, 0.5502465},
                {3.299245, -2.452961, 0.4987978},
                {2.296487, -1.657042, 0.41325},
                {1.891724, -1.267404, 0.3758306},
                {1.875054, -1.250069, 0.3750157}});
}

TEST(MinimaxSchedule, GivesTheCoefficientsOfAnotherWidening) {
  const Table table = {
      {4.57230504, -13.8562896, 10.8129087},    {2.21920542, -0.509954178, 0.0314769708},
      {1.98871649, -0.545273163, 0.0445917171}, {1.67524404, -0.592964522, 0.0811391471},
      {1.45083157, -0.586833497, 0.142137956},  {1.4138802, -0.576609273, 0.162708463}};
  const std::vector<MinimaxStep> steps = minimax_schedule(4, 2e6, 1e-4, 2);
  ASSERT_EQ(steps.size(), table.size());
  for (std::size_t s = 0; s < table.size(); ++s)
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(steps[s].coefficients[i], table[s][i], 3e-5 * std::abs(table[s][i])) << s;
}

TEST(MinimaxSchedule, KnowsTheConditionNumbersOfItsSteps) {
  const Widening widening{std::pow(0.99, 0.25), std::pow(1.01, 0.25)};
  const std::vector<double> published = {1e6, 2.8e4, 861, 32, 2.4, 1.02};
  const std::vector<MinimaxStep> steps = minimax_schedule(4, 1e6, 3e-4, 2, widening);
  ASSERT_EQ(steps.size(), published.size());
  for (std::size_t s = 0; s < steps.size(); ++s)
    EXPECT_NEAR(steps[s].kappa(), published[s], 0.02 * published[s]);
}

/// What the iteration makes of an eigenvalue: X, and M after every step.
struct Scalar {
  double x = 1, m = 1;
};

Scalar iterate(const std::vector<MinimaxStep>& steps, int p, double m, bool checks = false) {
  Scalar s{1, m};
  for (const MinimaxStep& step : steps) {
    const auto [a, b, c] = step.coefficients;
    const double q = a + s.m * (b + s.m * c);
    const auto [d, e, f] = step.quartic;
    const double n = step.degree == 2 ? q : q * q + d * q + e * s.m + f;
    s.x *= n;
    s.m *= std::pow(n, p);
    if (!checks) continue;
    EXPECT_LE(std::abs(n), step.magnitude * (1 + 1e-12));
    EXPECT_GE(s.m, step.least_after * (1 - 1e-9));
    EXPECT_LE(s.m, step.greatest_after * (1 + 1e-9));
  }
  return s;
}

/// The largest error of X over eigenvalues of all sizes, as they are spread or in logarithms.
double worst_error(const std::vector<MinimaxStep>& steps, int p, double kappa) {
  constexpr int samples = 20'000;
  double worst = 0;
  for (int i = 0; i <= samples; ++i)
    for (const double m :
         {std::pow(kappa, -1.0 * i / samples), 1 / kappa + (1 - 1 / kappa) * i / samples}) {
      const Scalar s = iterate(steps, p, m, i % 100 == 0);
      worst = std::max(worst, std::abs(std::pow(m, 1.0 / p) * s.x - 1));
    }
  return worst;
}

TEST(MinimaxSchedule, KeepsItsToleranceForEveryEigenvalue) {
  for (const int degree : {2, 4})
    for (const int p : {1, 2, 3, 4, 6, 8, 16, 64})
      for (const double kappa : {22.0, 1e2, 1e4, 2e7, 2e12})
        for (const double tolerance : {3e-4, 1e-6, 1e-14}) {
          const std::vector<MinimaxStep> steps = minimax_schedule(p, kappa, tolerance, degree);
          // A step rounds X by a few machine epsilons, and M by p times as many, of which the next
          // step takes back all but the rounding.
          EXPECT_LE(worst_error(steps, p, kappa), tolerance + 1e-15 * 40 * p)
              << degree << ' ' << p << ' ' << kappa << ' ' << tolerance;
          EXPECT_LE(steps.back().error, tolerance);
        }
}

/// X^p M_0 is 1 - O((1 - M_0)^(degree + 1)) near 1, and where an interval is wide a step of degree
/// 4 does what nearly two of degree 2 do.
TEST(MinimaxSchedule, TakesFewStepsOfDegreeFourAndEndsWithTwo) {
  const std::vector<MinimaxStep> steps = minimax_schedule(4, 0x1p21, 3e-4, 4);
  std::vector<int> degrees;
  for (const MinimaxStep& step : steps) degrees.push_back(step.degree);
  EXPECT_EQ(degrees, (std::vector<int>{4, 4, 4, 2, 2}));
  EXPECT_EQ(minimax_schedule(4, 0x1p21, 3e-4, 2).size(), 6u);
}

TEST(MinimaxSchedule, BearsEigenvaluesThatRoundingMovedOutOfItsInterval) {
  for (const int degree : {2, 4})
    for (const int p : {2, 4, 6})
      for (const double kappa : {1e3, 2e7}) {
        const std::vector<MinimaxStep> steps = minimax_schedule(p, kappa, 3e-4, degree);
        for (const double m : {1.0005, 1.002, 1.005})
          EXPECT_NEAR(std::pow(m, 1.0 / p) * iterate(steps, p, m).x, 1, 1e-3) << p << ' ' << m;
        // Below, the root is cut off at a few times the largest that was asked for.
        for (const double part : {0.0, 1e-3, 0.5, 0.99}) {
          const double x = iterate(steps, p, part / kappa).x;
          EXPECT_GT(x, 0);
          EXPECT_LT(x, 4 * std::pow(kappa, 1.0 / p));
        }
      }
}

}  // namespace
}  // namespace shampoo::test
