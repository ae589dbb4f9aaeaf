// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/solvers/symmetric_primitives.h"

// The primitives of solvers without host steps.

namespace shampoo::test {
namespace {

using kernels::Form;

TYPED_TEST_SUITE(SymmetricPrimitives, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(SymmetricPrimitives, FactorsAreDividedByAPowerOfTwo) {
  using Real = typename TypeParam::Real;
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (Real& x : this->a.matrix(m)) x *= std::ldexp(Real(1), 22 * int(m % 9) - 90);
  this->unpack(this->a, Form::dense, this->b);

  for (std::size_t m = 0; m < this->a.size(); ++m) {
    int exponent = 0;
    EXPECT_EQ(std::frexp(this->numbers[m], &exponent), 0.5);
    double largest = 0;
    for (std::size_t i = 0; i < this->a.matrix(m).size(); ++i) {
      const double x = static_cast<double>(this->b.matrix(m)[i]);
      EXPECT_EQ(x * this->numbers[m], static_cast<double>(this->a.matrix(m)[i]));
      largest = std::max(largest, std::abs(x));
    }
    EXPECT_GE(largest, 0.5);
    EXPECT_LT(largest, 1);
  }

  for (const Form form : {Form::split, Form::half}) {
    SquareBatch<Real> unpacked(some_sides), converted(some_sides);
    this->unpack(this->a, form, unpacked);
    this->backend->convert(this->b.squares(), converted.squares(), form);
    this->read(unpacked, form, this->c);
    this->read(converted, form, this->d);
    for (std::size_t m = 0; m < this->a.size(); ++m)
      EXPECT_TRUE(std::ranges::equal(this->c.matrix(m), this->d.matrix(m))) << "matrix " << m;
  }
}

TYPED_TEST(SymmetricPrimitives, FactorsOfZerosOrWhatIsNotFiniteAreNotDivided) {
  using Real = typename TypeParam::Real;
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  for (const std::size_t m : {0u, 3u})
    std::fill(this->a.matrix(m).begin(), this->a.matrix(m).end(), Real(0));
  this->a.at(4, 3, 3) = nan;
  this->a.at(5, 0, 0) = std::numeric_limits<Real>::infinity();
  this->a.at(6, 64, 0) = nan;
  for (Real& x : this->a.matrix(1)) x = std::numeric_limits<Real>::min();
  this->unpack(this->a, Form::dense, this->b);

  for (const std::size_t m : {0u, 3u, 4u, 5u}) EXPECT_EQ(this->numbers[m], 1);
  EXPECT_EQ(this->b.at(3, 6, 6), 0);
  EXPECT_TRUE(std::isnan(this->b.at(4, 3, 3)));
  EXPECT_TRUE(std::isnan(this->b.at(6, 0, 64)));
  EXPECT_EQ(static_cast<double>(this->b.at(1, 1, 0)) * this->numbers[1],
            static_cast<double>(this->a.at(1, 1, 0)));
}

TEST(Loading, SizesArePowersOfTwoWithAnInverse) {
  constexpr double least = std::numeric_limits<double>::denorm_min();
  constexpr double most = std::numeric_limits<double>::max();
  EXPECT_EQ(kernels::Loading::size_of(least), 0x1p-1021);
  EXPECT_EQ(kernels::Loading::size_of(0.5), 1);
  EXPECT_EQ(kernels::Loading::size_of(1), 2);
  EXPECT_EQ(kernels::Loading::size_of(most), 0x1p1023);
}

TYPED_TEST(SymmetricPrimitives, DampGivesMAndItsPolynomial) {
  using Real = typename TypeParam::Real;
  const std::size_t count = this->a.size();
  std::vector<double> epsilons, clamped(count, -1);
  for (std::size_t m = 0; m < count; ++m) epsilons.push_back(m % 2 == 0 ? 0.5 : 1e-9);
  for (const Form form : {Form::split, Form::half}) {
    const double of_form = type_of<Real> == Type::float64 ? 0
                           : form == Form::split          ? 0x1p-22
                                                          : 0x1p-11;
    std::vector<double> scales(count, 4);
    SquareBatch<Real> x(some_sides), to_m(some_sides), to_n(some_sides), before(some_sides);
    this->unpack(this->a, form, x);
    this->read(x, form, before);
    this->backend->multiply_symmetric(x.squares(), x.squares(), form, {}, x.squares(),
                                      this->b.squares(), Form::dense);
    this->backend->damp(x.squares(), this->b.squares(),
                        {.epsilons = epsilons.data(),
                         .kappa_max = 100,
                         .polynomial = {3, -2, 0.5},
                         .scales = scales.data(),
                         .clamped = clamped.data()},
                        to_m.squares(), to_n.squares(), form);
    this->backend->multiply_symmetric(to_m.squares(), to_m.squares(), form,
                                      {.product = 0.5, .first = -2, .identity = 3}, to_m.squares(),
                                      this->c.squares(), Form::dense);
    this->read(to_m, form, this->d);
    this->read(to_n, form, this->b);

    for (std::size_t m = 0; m < count; ++m) {
      const std::int64_t n = this->a.side(m);
      double fourth = 0;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double square = 0;
          for (std::int64_t k = 0; k < n; ++k)
            square +=
                static_cast<double>(before.at(m, i, k)) * static_cast<double>(before.at(m, j, k));
          fourth += square * square;
        }
      const double largest = (1 + 0x1p-10) * std::pow(fourth, 0.25);
      const double shift = std::max(epsilons[m] / 4, largest / 100);
      const double unit = std::exp2(std::floor(std::log2(largest + shift)) + 1);
      EXPECT_EQ(clamped[m], largest / 100 > epsilons[m] / 4);
      EXPECT_EQ(scales[m], 4 * unit);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          const double expected =
              static_cast<double>(before.at(m, i, j)) / unit + (i == j ? shift / unit : 0);
          // The sum of squares carries n roundings of S, and shift is a hundredth of it. Elements
          // of M are below 1.
          EXPECT_NEAR(this->d.at(m, i, j), expected, 2 * epsilon_of<Real> + of_form);
          // Both products have n terms of at most 1, weighted by at most 3. N, below 6, has the
          // form, and so has M, whose rows have a norm of at most 1: M^2 / 2 - 2 M is off by 3 of
          // it.
          EXPECT_NEAR(this->b.at(m, i, j), this->c.at(m, i, j),
                      static_cast<double>(n + 10) * 4 * epsilon_of<Real> + 9 * of_form);
        }
    }
  }
}

TYPED_TEST(SymmetricPrimitives, ProductsAreSymmetricBitForBit) {
  using Real = typename TypeParam::Real;
  this->multiply(this->a, this->a, Form::split, {}, this->b);
  this->multiply(this->a, this->b, Form::split,
                 {.product = 2, .first = 0.5, .addend = -3, .identity = -1}, this->d, this->c);
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        EXPECT_EQ(this->c.at(m, i, j), this->c.at(m, j, i));
        double sum = 0, size = 1;
        for (std::int64_t k = 0; k < n; ++k) {
          const double term =
              static_cast<double>(this->a.at(m, i, k)) * static_cast<double>(this->b.at(m, k, j));
          sum += term;
          size += std::abs(term);
        }
        const double expected = 2 * sum + 0.5 * static_cast<double>(this->a.at(m, i, j)) -
                                3 * static_cast<double>(this->d.at(m, i, j)) - (i == j ? 1 : 0);
        // Rounding of the n terms, and of B, which commutes with A but for its own rounding.
        EXPECT_NEAR(this->c.at(m, i, j), expected,
                    static_cast<double>(4 * n + 4) * epsilon_of<Real> * size);
      }
}

TYPED_TEST(SymmetricPrimitives, ProductsDoNotReadWhatHasNoWeight) {
  using Real = typename TypeParam::Real;
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  for (std::size_t m = 0; m < this->a.size(); ++m) {
    std::ranges::fill(this->b.matrix(m), Real(1));
    this->a.at(m, 0, 0) = infinity;
  }
  this->multiply(this->a, this->b, Form::half, {}, this->c);
  for (std::size_t m = 0; m < this->a.size(); ++m) EXPECT_EQ(this->c.at(m, 0, 0), infinity);
}

TYPED_TEST(SymmetricPrimitives, ProductsOfHalfOperandsRoundThemOnce) {
  using Real = typename TypeParam::Real;
  this->multiply(this->a, this->a, Form::half, {.addend = -2}, this->d, this->c);
  // Both operands of a term are off by 2^-11 at most, or by half of float16's least number.
  const double unit = 2 * 0x1p-11;
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const double of_d = -2 * static_cast<double>(this->d.at(m, i, j));
        double sum = of_d, size = std::abs(of_d), absolute = 0x1p-24;
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = static_cast<double>(this->a.at(m, i, k));
          const double y = static_cast<double>(this->a.at(m, k, j));
          sum += x * y;
          size += std::abs(x * y);
          absolute += 0x1p-25 * (std::abs(x) + std::abs(y));
        }
        EXPECT_EQ(this->c.at(m, i, j), this->c.at(m, j, i));
        EXPECT_NEAR(this->c.at(m, i, j), sum,
                    (unit + static_cast<double>(n + 4) * epsilon_of<Real>)*size + absolute);
      }
}

TYPED_TEST(SymmetricPrimitives, ChecksFlagWhatIsFarFromTheIdentityOrNotANumber) {
  using Real = typename TypeParam::Real;
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) this->a.at(m, i, j) = i == j ? Real(1.25) : 0;
  this->a.at(1, 1, 0) = this->a.at(1, 0, 1) = Real(-0.5);
  this->a.at(4, 2, 2) = this->a.at(10, 9, 9) = std::numeric_limits<Real>::quiet_NaN();
  std::vector<std::int32_t> failed(this->a.size(), 5);
  // Numbers of 16 bits stand for all of these.
  SquareBatch<Real> halves(some_sides);
  this->backend->convert(this->a.squares(), halves.squares(), Form::half);
  const auto flags = [&](double limit, const std::int32_t* proceed,
                         const std::uint8_t* active = nullptr) {
    this->backend->check_identity(halves.squares(), Form::half, limit, proceed, active,
                                  failed.data());
    const std::vector<std::int32_t> of_halves = failed;
    this->backend->check_identity(this->a.squares(), Form::dense, limit, proceed, active,
                                  failed.data());
    EXPECT_EQ(failed, of_halves);
    return failed;
  };
  constexpr std::int32_t bad = kernels::non_finite_root, refused = kernels::skipped_root;
  const std::int32_t yes = 1, no = 0;
  EXPECT_EQ(flags(0.25, nullptr),
            (std::vector<std::int32_t>{0, bad, 0, 0, bad, 0, 0, 0, 0, 0, bad}));
  EXPECT_EQ(flags(0.5, &yes), (std::vector<std::int32_t>{0, 0, 0, 0, bad, 0, 0, 0, 0, 0, bad}));
  EXPECT_EQ(flags(0.5, &no), std::vector<std::int32_t>(failed.size(), refused));
  const std::vector<std::uint8_t> some = {1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1};
  EXPECT_EQ(
      flags(0.25, nullptr, some.data()),
      (std::vector<std::int32_t>{0, bad, refused, 0, refused, refused, 0, refused, 0, 0, bad}));
}

}  // namespace
}  // namespace shampoo::test
