// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "tests/kernels/solvers/symmetric_primitives.h"

// Forms that symmetric matrices have between products.

namespace shampoo::test {
namespace {

using kernels::Form;

template <typename Tested>
using SymmetricForms = SymmetricPrimitives<Tested>;
TYPED_TEST_SUITE(SymmetricForms, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(SymmetricForms, ProductsHaveTheSameBitsAloneAndAmongMany) {
  using Real = typename TypeParam::Real;
  // More than the scratch memory is for; on a GPU several times the tiles that it holds at once.
  const bool is_gpu = TypeParam::place == Place::cuda;
  const std::size_t count = is_gpu ? 70 : 7, kinds = 3;
  for (const std::int64_t n : {is_gpu ? 512 : 100, is_gpu ? 509 : 104}) {
    kernels::Stack stack{.extent = {n}, .count = is_gpu ? 40 : 3, .stride = n, .factors = {&stack}};
    this->backend->reserve({&stack, 1}, type_of<Real>, {n});
    const std::vector<std::int64_t> sides(count, n);
    SquareBatch<Real> left(sides), right(sides), all(sides);
    for (std::size_t m = 0; m < count; ++m)
      for (auto* batch : {&left, &right}) {
        const std::span<Real> to = batch->matrix(m);
        if (m < kinds)
          fill_wishart<Real>(n, 5, 2 * m + (batch == &right), to);
        else
          std::ranges::copy(batch->matrix(m % kinds), to.begin());
      }
    const kernels::Weights weights{.product = 2, .first = 0.5, .addend = -3, .identity = -1};
    for (const Form form : {Form::split, Form::half})
      for (const bool squares : {false, true}) {
        this->multiply(left, squares ? left : right, form, weights, right, all);
        for (std::size_t m = 0; m < count; ++m) {
          SquareBatch<Real> one_left({n}), one_right({n}), alone({n});
          std::ranges::copy(left.matrix(m), one_left.matrix(0).begin());
          std::ranges::copy(right.matrix(m), one_right.matrix(0).begin());
          if (m < kinds)
            this->multiply(one_left, squares ? one_left : one_right, form, weights, one_right,
                           alone);
          ASSERT_TRUE(std::ranges::equal(all.matrix(m),
                                         m < kinds ? alone.matrix(0) : all.matrix(m % kinds)))
              << "matrix " << m << (squares ? ", square" : "");
        }
      }
  }
}

/// Of which a library makes three quarters.
TYPED_TEST(SymmetricForms, LongSquaresHaveTheSameBitsAloneAndAmongMany) {
  using Real = typename TypeParam::Real;
  const std::size_t count = TypeParam::place == Place::cuda ? 40 : 3, kinds = 2;
  constexpr std::int64_t n = type_of<Real> == Type::float32 ? 768 : 129;
  this->backend->reserve({}, type_of<Real>, {n});
  const std::vector<std::int64_t> sides(count, n);
  SquareBatch<Real> x(sides), all(sides);
  for (std::size_t m = 0; m < count; ++m) fill_wishart<Real>(n, 5, m % kinds, x.matrix(m));
  const kernels::Weights weights{.product = 2, .first = 0.5, .identity = -1};
  this->multiply(x, x, Form::split, weights, all);
  for (std::size_t m = 0; m < count; ++m) {
    SquareBatch<Real> one({n}), alone({n});
    std::ranges::copy(x.matrix(m), one.matrix(0).begin());
    if (m < kinds) this->multiply(one, one, Form::split, weights, alone);
    ASSERT_TRUE(
        std::ranges::equal(all.matrix(m), m < kinds ? alone.matrix(0) : all.matrix(m % kinds)))
        << "matrix " << m;
  }
}

/// A A twice: of equal matrices, and as a square.
TYPED_TEST(SymmetricForms, LongSquaresAreSymmetricProductsOfTheirOperand) {
  using Real = typename TypeParam::Real;
  // Only products of float32 are quartered, from 768 on.
  const bool quarters = type_of<Real> == Type::float32;
  for (const std::int64_t n : {quarters ? 768 : 129, quarters ? 776 : 136, quarters ? 577 : 130}) {
    this->backend->reserve({}, type_of<Real>, {n});
    SquareBatch<Real> x({n}), same({n}), square({n}), product({n});
    for (auto* batch : {&x, &same}) fill_wishart<Real>(n, 5, 1, batch->matrix(0));
    for (const Form form : {Form::split, Form::half}) {
      this->multiply(x, same, form, {}, product);
      this->multiply(x, x, form, {}, square);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j <= i; ++j) {
          // Both have n products and sums that round, of at most sum_k |a_ik a_kj|; by Cauchy and
          // Schwarz. The bound's own elements round, too.
          const double most = 1.01 * std::sqrt(static_cast<double>(product.at(0, i, i)) *
                                               static_cast<double>(product.at(0, j, j)));
          ASSERT_NEAR(square.at(0, i, j), product.at(0, i, j),
                      2 * static_cast<double>(n + 4) * epsilon_of<Real> * most)
              << i << ' ' << j;
          ASSERT_EQ(square.at(0, i, j), square.at(0, j, i)) << i << ' ' << j;
        }
    }
  }
}

/// What a form has of a matrix: A I, of which no sum rounds.
TYPED_TEST(SymmetricForms, FormsChangeElementsByNoMoreThanTheyMay) {
  using Real = typename TypeParam::Real;
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        // From 2^-20 to 2^14
        this->a.at(m, i, j) *= std::ldexp(Real(1), static_cast<int>((i + j) % 34) - 20);
        this->b.at(m, i, j) = i == j ? Real(1) : 0;
      }
  const auto expect_near = [&](double relative, double absolute) {
    for (std::size_t m = 0; m < this->a.size(); ++m)
      for (std::size_t i = 0; i < this->a.matrix(m).size(); ++i) {
        const auto x = static_cast<double>(this->a.matrix(m)[i]);
        EXPECT_NEAR(static_cast<double>(this->c.matrix(m)[i]), x,
                    std::max(relative * std::abs(x), absolute));
      }
  };
  this->multiply(this->a, this->b, Form::split, {}, this->c);
  // The sum of both terms is rounded, too.
  expect_near(0x1p-22 + 0x1p-24, 0x1p-36);
  this->multiply(this->a, this->b, Form::half, {}, this->c);
  expect_near(0x1p-11, 0x1p-25);
}

TYPED_TEST(SymmetricForms, WhatIsSplitCanBeReadAsHalf) {
  SquareBatch<typename TypeParam::Real> split(some_sides);
  this->backend->convert(this->a.squares(), split.squares(), Form::split);
  this->backend->multiply_symmetric(split.squares(), split.squares(), Form::half, {.first = 2},
                                    split.squares(), this->b.squares(), Form::dense);
  this->multiply(this->a, this->a, Form::half, {.first = 2}, this->c);
  for (std::size_t m = 0; m < this->a.size(); ++m)
    EXPECT_TRUE(std::ranges::equal(this->b.matrix(m), this->c.matrix(m))) << "matrix " << m;
}

/// A B alone in halves, read by a product with I.
TYPED_TEST(SymmetricForms, HalvesOfAProductOfHalvesAreItsNearest) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> x(some_sides), y(some_sides), halves(some_sides), unit(some_sides);
  for (std::size_t m = 0; m < unit.size(); ++m)
    for (std::int64_t i = 0; i < unit.side(m); ++i) unit.at(m, i, i) = 1;
  this->multiply(this->a, this->a, Form::split, {.product = 0.25, .first = 1}, this->b);
  const auto convert = [&](SquareBatch<Real>& from, SquareBatch<Real>& to) {
    this->backend->convert(from.squares(), to.squares(), Form::half);
  };
  const auto multiply = [&](SquareBatch<Real>& left, SquareBatch<Real>& right,
                            SquareBatch<Real>& to, Form form) {
    this->backend->multiply_symmetric(left.squares(), right.squares(), Form::half, {},
                                      left.squares(), to.squares(), form);
  };
  convert(this->a, x);
  convert(this->b, y);
  multiply(x, y, this->c, Form::dense);
  multiply(x, y, halves, Form::half);
  convert(unit, x);
  multiply(halves, x, y, Form::dense);
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double size = 0;
        for (std::int64_t k = 0; k < n; ++k)
          size += std::abs(static_cast<double>(this->a.at(m, i, k)) *
                           static_cast<double>(this->b.at(m, k, j)));
        const double expected = static_cast<double>(this->c.at(m, i, j));
        // Both elements round, which differ by the rounding of A and B, and both sums of n terms.
        ASSERT_NEAR(static_cast<double>(y.at(m, i, j)), expected,
                    0x1p-11 * (std::abs(expected) + 0x1p-9 * size) + 0x1p-25 +
                        2 * static_cast<double>(n + 4) * epsilon_of<Real> * size)
            << m << ' ' << i << ' ' << j;
      }
}

/// Of halves with one addend, which a library may write but for the identity.
TYPED_TEST(SymmetricForms, HalvesOfASumAreRoundedOnceAndTwiceOnTheDiagonal) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> x(some_sides), z(some_sides), halves(some_sides);
  this->backend->convert(this->a.squares(), x.squares(), Form::half);
  this->backend->convert(this->d.squares(), z.squares(), Form::half);
  for (const double of_d : {0.0, -3.0}) {
    const double of_a = of_d == 0 ? 0.5 : 0;
    const kernels::Weights weights{.product = 0.25, .first = of_a, .addend = of_d, .identity = 2};
    this->backend->multiply_symmetric(x.squares(), x.squares(), Form::half, weights, z.squares(),
                                      halves.squares(), Form::half);
    this->read(halves, Form::half, this->c);
    // The same, not rounded to halves
    this->backend->multiply_symmetric(x.squares(), x.squares(), Form::half, weights, z.squares(),
                                      this->b.squares(), Form::dense);
    for (std::size_t m = 0; m < this->a.size(); ++m)
      for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          const double expected = static_cast<double>(this->b.at(m, i, j));
          double size = std::abs(of_a * static_cast<double>(this->a.at(m, i, j))) +
                        std::abs(of_d * static_cast<double>(this->d.at(m, i, j))) + 2;
          for (std::int64_t k = 0; k < n; ++k)
            size += 0.25 * std::abs(static_cast<double>(this->a.at(m, i, k)) *
                                    static_cast<double>(this->a.at(m, k, j)));
          // Both have n products and sums that round; the size is that of operands, which halves
          // are up to 1.001 times.
          const double sums = 2 * static_cast<double>(n + 4) * epsilon_of<Real> * 1.002 * size;
          // Each rounding of halves is 2^-11 of its number, or 2^-25: of the sum and, on the
          // diagonal, of what was there before the identity.
          const double before = i == j ? std::abs(expected - 2) + sums : 0;
          ASSERT_NEAR(
              static_cast<double>(this->c.at(m, i, j)), expected,
              sums + 0x1p-11 * (std::abs(expected) + sums + before) * (1 + 0x1p-11) + 2 * 0x1p-25)
              << m << ' ' << i << ' ' << j;
        }
  }
}

TYPED_TEST(SymmetricForms, ProductsInAFormAreConvertedProducts) {
  using Real = typename TypeParam::Real;
  const kernels::Weights weights{.product = 0.25, .first = 1, .addend = 0.5, .identity = -1};
  SquareBatch<Real> x(some_sides), of_d(some_sides), in_form(some_sides), converted(some_sides);
  this->backend->convert(this->d.squares(), of_d.squares(), Form::split);
  for (const Form form : {Form::split, Form::half}) {
    this->backend->convert(this->a.squares(), x.squares(), Form::split);
    this->backend->multiply_symmetric(x.squares(), x.squares(), Form::split, weights,
                                      of_d.squares(), in_form.squares(), form);
    this->multiply(this->a, this->a, Form::split, weights, this->d, this->b);
    this->backend->convert(this->b.squares(), converted.squares(), form);
    for (auto* operand : {&in_form, &converted})
      this->backend->multiply_symmetric(
          operand->squares(), operand->squares(), form, {.first = 1}, operand->squares(),
          (operand == &in_form ? this->b : this->c).squares(), Form::dense);
    for (std::size_t m = 0; m < this->a.size(); ++m)
      EXPECT_TRUE(std::ranges::equal(this->b.matrix(m), this->c.matrix(m))) << "matrix " << m;
  }
}

TYPED_TEST(SymmetricForms, DampMakesTheIdentityOfZeros) {
  using Real = typename TypeParam::Real;
  const std::size_t count = this->a.size();
  SquareBatch<Real> x(some_sides), to_m(some_sides), to_n(some_sides);
  for (std::size_t m = 0; m < count; ++m) std::ranges::fill(this->a.matrix(m), Real(0));
  this->unpack(this->a, Form::split, x);
  for (const double epsilon : {0.0, 0x1p-126, 1e-8, 0x1p126}) {
    const std::vector<double> epsilons(count, epsilon);
    std::vector<double> scales(count, 4), clamped(count, -1);
    this->backend->damp(x.squares(), this->a.squares(),
                        {.epsilons = epsilons.data(),
                         .kappa_max = 100,
                         .polynomial = {3, -2, 0.5},
                         .scales = scales.data(),
                         .clamped = clamped.data()},
                        to_m.squares(), to_n.squares(), Form::split);
    this->read(to_m, Form::split, this->c);
    this->read(to_n, Form::split, this->d);
    for (std::size_t m = 0; m < count; ++m) {
      EXPECT_EQ(scales[m], epsilon == 0 ? 4 : epsilon);
      EXPECT_EQ(clamped[m], epsilon == 0);
      for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          ASSERT_EQ(this->c.at(m, i, j), i == j);
          ASSERT_EQ(this->d.at(m, i, j), i == j ? 1.5 : 0);
        }
    }
  }
}

}  // namespace
}  // namespace shampoo::test
