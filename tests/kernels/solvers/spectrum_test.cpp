// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/square_batch.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using kernels::Spectrum;

template <typename Tested>
class RootSpectrum : public AtPlace<Tested> {
 protected:
  using Number = typename Tested::Real;

  struct Result {
    std::vector<double> values;
    double clamped = -1;
  };

  /// Eigenvalues of the root with exponent 1/2.
  Result root_of(const std::vector<double>& values, Spectrum spectrum, double epsilon) {
    SquareBatch<Number> a({static_cast<std::int64_t>(values.size())});
    for (std::size_t i = 0; i < values.size(); ++i) a.values(0)[i] = static_cast<Number>(values[i]);
    Result result;
    const double exponent = 0.5;
    spectrum.epsilons = &epsilon;
    spectrum.exponents = &exponent;
    spectrum.clamped = &result.clamped;
    this->backend->root_spectrum(a.squares(), spectrum);
    result.values.assign(a.values(0).begin(), a.values(0).end());
    return result;
  }

  /// x^(-1/2) after x was rounded to the arithmetic type at most twice.
  void expect_roots(const Result& result, const std::vector<double>& of) {
    ASSERT_EQ(result.values.size(), of.size());
    for (std::size_t i = 0; i < of.size(); ++i) {
      const double expected = of[i] == 0 ? 0 : 1 / std::sqrt(of[i]);
      EXPECT_NEAR(result.values[i], expected, 2 * epsilon_of<Number> * expected) << i;
    }
  }
};

TYPED_TEST_SUITE(RootSpectrum, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(RootSpectrum, LeavesAPositiveDefiniteMatrixAlone) {
  const auto result = this->root_of({0.25, 1, 4}, {}, 0.125);

  this->expect_roots(result, {0.25, 1, 4});
  EXPECT_EQ(result.clamped, 0);
}

TYPED_TEST(RootSpectrum, ShiftsTheLeastEigenvalueToEpsilon) {
  const auto result = this->root_of({-0.5, 1, 4}, {}, 0.125);

  this->expect_roots(result, {0.125, 1.625, 4.625});
  EXPECT_EQ(result.clamped, 3);
}

TYPED_TEST(RootSpectrum, CountsOnlyEigenvaluesThatMovedByMoreThanRounding) {
  using Real = typename TypeParam::Real;
  // The shift of 2^-30 is below 4 epsilon of the largest eigenvalue in float32.
  const auto result = this->root_of({0, 1024}, {}, 0x1p-30);

  EXPECT_EQ(result.clamped, sizeof(Real) == 4 ? 1 : 2);
}

TYPED_TEST(RootSpectrum, AddsEpsilonAfterTheDecomposition) {
  const Spectrum spectrum{.rule = Spectrum::Rule::shift_and_add};

  const auto healthy = this->root_of({0.5, 1}, spectrum, 0.25);
  this->expect_roots(healthy, {0.75, 1.25});
  EXPECT_EQ(healthy.clamped, 0);

  const auto indefinite = this->root_of({-0.5, 1}, spectrum, 0.25);
  this->expect_roots(indefinite, {0.25, 1.75});
  EXPECT_EQ(indefinite.clamped, 2);
}

TYPED_TEST(RootSpectrum, CutsSmallEigenvalues) {
  const Spectrum relative{.rule = Spectrum::Rule::cut, .cut_relative = 0.25};
  this->expect_roots(this->root_of({-3, 0, 1, 1.5, 4}, relative, 0), {0, 0, 0, 1.5, 4});

  const Spectrum absolute{.rule = Spectrum::Rule::cut, .cut_relative = 0.25, .cut_absolute = 2};
  this->expect_roots(this->root_of({-3, 0, 1, 1.5, 4}, absolute, 0), {0, 0, 0, 0, 4});

  const Spectrum none{.rule = Spectrum::Rule::cut};
  this->expect_roots(this->root_of({-3, -1}, none, 0), {0, 0});
}

TYPED_TEST(RootSpectrum, CutsAtSideTimesMachineEpsilonIfAsked) {
  using Real = typename TypeParam::Real;
  const Spectrum spectrum{.rule = Spectrum::Rule::cut, .cut_relative = -1};
  const double limit = 3 * epsilon_of<Real>;

  this->expect_roots(this->root_of({limit, 2 * limit, 1}, spectrum, 0), {0, 2 * limit, 1});
}

TYPED_TEST(RootSpectrum, RaisesToTheRelativeFloor) {
  const auto result = this->root_of({0.0625, 0.5, 4}, {.relative_floor = 0.25}, 0.03125);

  this->expect_roots(result, {1, 1, 4});
  EXPECT_EQ(result.clamped, 2);
}

TYPED_TEST(RootSpectrum, FloorsWhatACutLeaves) {
  const Spectrum spectrum{
      .rule = Spectrum::Rule::cut, .relative_floor = 0.5, .cut_relative = 0.125};
  const auto result = this->root_of({0.25, 1, 4}, spectrum, 0);

  this->expect_roots(result, {0, 2, 4});
  EXPECT_EQ(result.clamped, 1);
}

TYPED_TEST(RootSpectrum, OfZeroIsNotFinite) {
  const auto result = this->root_of({0, 0}, {}, 0);

  EXPECT_TRUE(std::isinf(result.values[0]));
}

TYPED_TEST(RootSpectrum, TakesEachMatrixItsOwnRates) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> a({1, 2, 2});
  for (std::size_t m = 0; m < 3; ++m)
    for (Real& x : a.values(m)) x = 4;
  const double epsilons[] = {0, 0, 16}, exponents[] = {0.5, 1, 0.25};
  this->backend->root_spectrum(a.squares(), {.epsilons = epsilons, .exponents = exponents});

  EXPECT_EQ(a.values(0)[0], Real(0.5));
  EXPECT_EQ(a.values(1)[1], Real(0.25));
  EXPECT_EQ(a.values(2)[0], Real(0.5));
}

}  // namespace
}  // namespace shampoo::test
