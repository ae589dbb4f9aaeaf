// SPDX-License-Identifier: Apache-2.0
// Whatever the factor, a root that a solver stores is one of a definite matrix: finite, with a
// positive diagonal, and with no element above epsilon^(-1/p), the largest eigenvalue that the root
// of a matrix with eigenvalues >= epsilon can have; twice that where rounding moved them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "tests/kernels/spectra.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

Solver solver_named(const std::string& name, double epsilon) {
  if (name == "Newton") return CoupledNewton{};
  if (name == "HigherOrder")
    return CoupledHigherOrder{.relative_epsilon = 0, .absolute_epsilon = epsilon};
  if (name == "Minimax") return Minimax{};
  if (name == "Tridiagonal") return Tridiagonal{};
  if (name == "EigenAfter") return Eigen{.perturb_before = false};
  return Eigen{};
}

/// Factors of few gradients, and nearly singular ones.
std::vector<Matrix> degenerate_factors(std::int64_t n) {
  std::vector<Matrix> factors;
  const auto add = [&](std::vector<double> eigenvalues, double scale) {
    for (double& x : eigenvalues) x *= scale;
    factors.push_back(rotated(eigenvalues, static_cast<unsigned>(factors.size()) + 1));
  };
  const auto rank = [&](std::int64_t ones) {
    std::vector<double> d(static_cast<std::size_t>(n), 0);
    std::fill_n(d.begin(), ones, 1.0);
    return d;
  };
  for (const double scale : {1e-20, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-2, 1.0, 1e4, 1e8}) {
    for (const std::int64_t ones : {std::int64_t{1}, std::int64_t{2}, n / 2})
      add(rank(ones), scale);
    for (const double condition : {1e7, 1e12, 1e20})
      add(eigenvalues("log_uniform", n, condition), scale);
  }
  add(rank(0), 1);
  return factors;
}

class RootBounds : public testing::TestWithParam<std::tuple<std::string, Place>> {
 protected:
  void SetUp() override { require(std::get<Place>(GetParam())); }

  template <typename Real>
  void expect_roots() const {
    const auto& [name, place] = GetParam();
    const auto backend = backend_with_host_arrays(place);
    // An emulated device takes its time.
    const bool is_emulated = place == Place::emulated;
    const std::vector<Matrix> factors = degenerate_factors(is_emulated ? 8 : 48);
    const std::vector<double> epsilons =
        is_emulated ? std::vector{1e-12} : std::vector{1e-12, 1e-6};
    for (const double epsilon : epsilons)
      for (const int p : {2, 4}) {
        const std::vector<Root> roots =
            roots_of<Real>(*backend, factors, solver_named(name, epsilon),
                           {.exponent = 1.0 / p, .epsilon = epsilon});
        for (std::size_t f = 0; f < roots.size(); ++f) {
          ASSERT_NE(roots[f].outcome, kernels::Outcome::failed) << f << ' ' << epsilon << ' ' << p;
          const Matrix& root = roots[f].matrix;
          for (const double x : root)
            ASSERT_LE(std::abs(x), 2 * std::pow(epsilon, -1.0 / p)) << f << ' ' << epsilon;
          const auto n = static_cast<std::size_t>(side_of(root));
          for (std::size_t i = 0; i < n; ++i)
            ASSERT_GT(root[i * (n + 1)], 0) << f << ' ' << epsilon;
        }
      }
  }
};

TEST_P(RootBounds, HoldForDegenerateFactorsInFloat32) { expect_roots<float>(); }
TEST_P(RootBounds, HoldForDegenerateFactorsInFloat64) { expect_roots<double>(); }

const auto name_of_tested = [](const auto& tested) {
  return std::get<0>(tested.param) + "_" + name_of(std::get<1>(tested.param));
};

INSTANTIATE_TEST_SUITE_P(All, RootBounds,
                         testing::Combine(testing::Values("Eigen", "EigenAfter", "Newton",
                                                          "HigherOrder", "Minimax"),
                                          testing::ValuesIn(all_places)),
                         name_of_tested);
INSTANTIATE_TEST_SUITE_P(OnTheHost, RootBounds,
                         testing::Values(std::tuple{"Tridiagonal", Place::cpu}), name_of_tested);

}  // namespace
}  // namespace shampoo::test
