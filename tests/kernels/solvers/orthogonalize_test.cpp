// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/solvers/polar_plan.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/singular_values.h"
#include "tests/kernels/table.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using kernels::Mode;
using kernels::PolarPlan;
using Shape = std::vector<std::int64_t>;

/// Newton-Schulz as it is defined, in double.
Matrix newton_schulz(const NewtonSchulz& solver, const Matrix& f, double scale) {
  Matrix x = f.rows <= f.columns ? f : transposed(f);
  const double size = std::max(norm(x), 1e-8);
  for (double& e : x.numbers) e /= size;
  const auto [a, b, c] = solver.coefficients;
  for (int i = 0; i < solver.iterations; ++i) {
    const Matrix r = product(x, transposed(x)), rr = product(r, r);
    Matrix q = r;
    for (std::size_t e = 0; e < q.numbers.size(); ++e)
      q.numbers[e] = b * r.numbers[e] + c * rr.numbers[e];
    for (std::int64_t j = 0; j < q.rows; ++j) q(j, j) += a;
    x = product(q, x);
  }
  for (double& e : x.numbers) e *= scale;
  return f.rows <= f.columns ? x : transposed(x);
}

/// Sides of 1, primes, around those where algorithms change (48, 64, 100), and longer than a panel.
const std::vector<Shape> all_shapes = {{1, 1},     {1, 9},     {9, 1},   {5, 3},   {3, 5},
                                       {48, 49},   {49, 48},   {63, 65}, {65, 64}, {130, 17},
                                       {100, 101}, {101, 103}, {7, 513}, {1300, 3}};

template <typename Tested>
class Orthogonalize : public AtPlace<Tested> {
 protected:
  using Real = typename Tested::Real;
  static constexpr double unit = epsilon_of<Real>;

  /// Two blocks of each shape, the second absent where `absent`.
  static std::vector<TensorCase> cases(const std::vector<Shape>& shapes, bool absent = false) {
    std::vector<TensorCase> cases;
    for (const Shape& shape : shapes)
      for (const Mode mode : {Mode::preconditioned, absent ? Mode::absent : Mode::preconditioned})
        cases.push_back({.shape = shape, .mode = mode, .seed = 7 * cases.size() + 1});
    return cases;
  }

  static void write_direction(Table& table, std::size_t block, const Matrix& f) {
    for (std::int64_t e = 0; e < table.blocks[block].elements; ++e)
      write(table.direction.data() +
                static_cast<std::size_t>(table.blocks[block].flat + e) * sizeof(Real),
            type_of<Real>,
            static_cast<double>(static_cast<Real>(f.numbers[static_cast<std::size_t>(e)])));
  }
  static Matrix read_direction(const Table& table, std::size_t block) {
    Matrix f{table.extents[block][0], table.extents[block][1]};
    for (std::int64_t e = 0; e < table.blocks[block].elements; ++e)
      f.numbers[static_cast<std::size_t>(e)] =
          table.slot(table.direction, table.blocks[block].flat + e);
    return f;
  }

  void run(Table& table, const Orthogonalizer& solver, double scale = 1,
           bool keeps_others = false) {
    std::vector<PolarPlan> plans;
    for (const kernels::Stack& stack : table.stacks) {
      plans.push_back(kernels::plan_polar(solver, stack.extent[0], stack.extent[1], scale));
      plans.back().keeps_others = keeps_others;
    }
    this->backend->reserve_orthogonalization(table.stacks, plans, type_of<Real>);
    this->backend->orthogonalize(table.phase(), table.stacks, table.selected(), plans,
                                 table.direction.data(), table.direction_norms.data());
  }

  /// P of one matrix.
  Matrix of(const Matrix& f, const Orthogonalizer& solver, double scale = 1) {
    Table table({{.shape = {f.rows, f.columns}}}, type_of<Real>);
    write_direction(table, 0, f);
    run(table, solver, scale);
    return read_direction(table, 0);
  }

  /// Largest |u_i^T P v_j| for i != j, and the diagonal.
  struct InBases {
    double largest_beside = 0;
    std::vector<double> values;
  };
  static InBases in_bases(const Known& known, const Matrix& p) {
    const Matrix d = product(product(transposed(known.u), p), known.v);
    InBases result;
    for (std::int64_t i = 0; i < d.rows; ++i)
      for (std::int64_t j = 0; j < d.columns; ++j)
        if (i == j)
          result.values.push_back(d(i, j));
        else
          result.largest_beside = std::max(result.largest_beside, std::abs(d(i, j)));
    return result;
  }
};

TYPED_TEST_SUITE(Orthogonalize, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(Orthogonalize, NewtonSchulzIsItsDefinitionInDouble) {
  constexpr NewtonSchulz three{.iterations = 3, .coefficients = {3, -3.2, 1.2}};
  for (const NewtonSchulz& solver : {NewtonSchulz{}, NewtonSchulz{.iterations = 2}, three}) {
    Table table(this->cases(all_shapes, true), type_of<typename TypeParam::Real>);
    std::vector<Matrix> before;
    for (std::size_t b = 0; b < table.blocks.size(); ++b)
      before.push_back(this->read_direction(table, b));
    this->run(table, solver, 0.2);
    for (std::size_t b = 0; b < table.blocks.size(); ++b) {
      if (table.modes[b] == Mode::absent) {
        EXPECT_EQ(table.direction_norms[b], -1) << "written for an absent block";
        continue;
      }
      const Matrix expected = newton_schulz(solver, before[b], 0.2);
      Matrix error = this->read_direction(table, b);
      const double size = norm(error);
      for (std::size_t e = 0; e < error.numbers.size(); ++e)
        error.numbers[e] -= expected.numbers[e];
      // In the Frobenius norm, a step of rows and columns k <= l rounds by at most (l + k + 10)
      // epsilon times |X|_F times the sum of sizes of its terms, |a| + |b| s^2 + |c| s^4 for
      // singular values s <= 1.21, which is below 15. Errors grow by the slope of s p(s^2), at most
      // 4 there, in each of up to 5 steps: 4^5 in all, 4/3 of it with those of later steps.
      const double k = static_cast<double>(error.rows + error.columns);
      const double bound = (k + 10) * this->unit * 15 * std::pow(4, solver.iterations) * 4 / 3;
      EXPECT_LE(norm(error), bound * (norm(expected) + 0.2))
          << error.rows << " x " << error.columns;
      EXPECT_NEAR(table.direction_norms[b], size * size, 1e-6 * size * size);
    }
  }
}

TYPED_TEST(Orthogonalize, PolarExpressKeepsItsBoundDownToKappaMax) {
  const bool narrow = sizeof(typename TypeParam::Real) == sizeof(float);
  for (const double kappa : narrow ? std::vector{1.0, 10.0, 1e3, 1e4} : std::vector{1.0, 1e3, 1e7})
    for (const double tolerance : {1e-2, 1e-6})
      for (const Shape& shape : std::vector<Shape>{{1, 7}, {13, 29}, {70, 66}, {101, 40}}) {
        const std::int64_t k = std::min(shape[0], shape[1]);
        const Known known(shape, spread(k, 1 / kappa), 3);
        const auto p =
            this->in_bases(known, this->of(known.matrix(), PolarExpress{kappa, tolerance}));
        // Of the largest singular value's rounding, a small one gets as much as it grows; likewise
        // of that of F itself.
        const double rounding = 8 * kappa * static_cast<double>(k) * this->unit;
        for (const double value : p.values)
          EXPECT_NEAR(value, 1, tolerance + rounding) << kappa << ", " << shape[0] << " rows";
        EXPECT_LE(p.largest_beside, rounding);
      }
}

TYPED_TEST(Orthogonalize, PolarExpressDoesNotRaiseSmallerSingularValuesAboveItsBound) {
  std::vector<double> values = spread(20, 1e-2);
  for (const double least : {1e-4, 1e-6, 0.0}) values.push_back(least);
  const Known known({23, 31}, values, 5);
  const PolarExpress solver{.kappa_max = 100, .tolerance = 1e-3};
  const auto p = this->in_bases(known, this->of(known.matrix(), solver));
  const double rounding = 8 * 100 * 23 * this->unit;
  for (std::size_t i = 20; i < values.size(); ++i) {
    EXPECT_GE(p.values[i], -rounding);
    EXPECT_LE(p.values[i], 1 + 1e-3 + rounding);
  }
  EXPECT_NEAR(p.values.back(), 0, rounding);
}

TYPED_TEST(Orthogonalize, SvdGivesThePolarFactorOverTheRank) {
  for (const Shape& shape : std::vector<Shape>{{1, 7}, {7, 1}, {13, 29}, {65, 64}})
    for (const bool nuclear : {false, true})
      for (const std::int64_t missing : {0, 1, 5}) {
        const std::int64_t k = std::min(shape[0], shape[1]);
        if (missing >= k) continue;
        std::vector<double> values = spread(k, 0.1);
        std::vector<double> expected(values.size(), 2);
        for (std::size_t i = values.size() - static_cast<std::size_t>(missing); i < values.size();
             ++i)
          values[i] = expected[i] = 0;
        if (nuclear)
          for (double& e : expected) e *= std::accumulate(values.begin(), values.end(), 0.0);
        const Known known(shape, values, 11);
        Matrix error = this->of(known.matrix(), Svd{nuclear}, 2);
        const Matrix exact = known.with(expected);
        for (std::size_t e = 0; e < error.numbers.size(); ++e) error.numbers[e] -= exact.numbers[e];
        // Perturbations of F, c (m + n) epsilon of its largest singular value with c for a backward
        // stable decomposition, turn the factor by at most 2 / least value [Higham 2008, ch. 8].
        const double sides = static_cast<double>(shape[0] + shape[1]);
        EXPECT_LE(norm(error), 20 * sides * this->unit * norm(exact)) << shape[0] << " " << missing;
      }
}

TYPED_TEST(Orthogonalize, DegenerateMatricesGiveFiniteOnes) {
  using Limits = std::numeric_limits<typename TypeParam::Real>;
  const double huge = Limits::digits == 24 ? 1e38 : 1e100;
  const double tiny = static_cast<double>(Limits::min()) * 16;
  const double denormal = static_cast<double>(Limits::denorm_min()) * 64;
  for (const Orthogonalizer& solver :
       {Orthogonalizer(NewtonSchulz{}), Orthogonalizer(PolarExpress{}), Orthogonalizer(Svd{})})
    for (const Shape& shape : std::vector<Shape>{{6, 9}, {70, 66}}) {
      const Matrix zeros{shape[0], shape[1]};
      EXPECT_EQ(this->of(zeros, solver).numbers, zeros.numbers);
      Matrix entry = zeros, same = zeros;
      entry(2, 5) = -3;
      for (double& e : same.numbers) e = 1;
      for (const double factor : {1.0, huge, 1e-6, tiny, denormal}) {
        const bool vanishes = factor == denormal || factor == tiny;
        for (const Matrix& pattern : {entry, same}) {
          Matrix f = pattern;
          for (double& e : f.numbers) e *= factor / 3;
          const Matrix p = this->of(f, solver);
          for (const double e : p.numbers) ASSERT_TRUE(std::isfinite(e)) << factor;
          // Rank one: |P|_F is its singular value. Newton-Schulz gives 0.70 from 1.
          EXPECT_GE(norm(p), vanishes ? 0 : 0.6) << factor;
          EXPECT_LE(norm(p), 1.15) << factor;
        }
      }
    }
}

/// Alone on one thread, and in a stack between others on several.
TYPED_TEST(Orthogonalize, AMatrixHasTheSameBitsInEveryStack) {
  const Place place = TypeParam::place;
  for (const Orthogonalizer& solver :
       {Orthogonalizer(NewtonSchulz{}), Orthogonalizer(PolarExpress{}), Orthogonalizer(Svd{})}) {
    // What cuSOLVER does is not promised; see kernels/README.md.
    if (place == Place::cuda && std::holds_alternative<Svd>(solver)) continue;
    Table together(this->cases({{5, 3}, {49, 60}, {101, 103}, {130, 17}}),
                   type_of<typename TypeParam::Real>);
    std::vector<Matrix> alone;
    for (std::size_t b = 0; b < together.blocks.size(); ++b)
      alone.push_back(this->of(this->read_direction(together, b), solver));
    this->backend = backend_with_host_arrays(place, most_threads(place));
    this->run(together, solver);
    for (std::size_t b = 0; b < together.blocks.size(); ++b)
      EXPECT_EQ(this->read_direction(together, b).numbers, alone[b].numbers) << b;
  }
}

TYPED_TEST(Orthogonalize, NothingIsWrittenInASkippedStep) {
  Table table(this->cases({{5, 3}, {9, 4}}), type_of<typename TypeParam::Real>);
  table.proceed = 0;
  const std::vector<double> norms = table.direction_norms;
  this->run(table, NewtonSchulz{});
  EXPECT_EQ(table.direction_norms, norms);
}

TYPED_TEST(Orthogonalize, BlocksThatAreNotSelectedKeepTheirDirectionWhereAsked) {
  for (const Orthogonalizer& solver :
       {Orthogonalizer(NewtonSchulz{}), Orthogonalizer(NewtonSchulz{.iterations = 2}),
        Orthogonalizer(Svd{})}) {
    const auto cases = this->cases({{5, 3}, {9, 4}, {1, 7}, {70, 66}}, true);
    Table keeping(cases, type_of<typename TypeParam::Real>);
    Table plain(cases, type_of<typename TypeParam::Real>);
    std::vector<Matrix> before;
    for (std::size_t b = 0; b < keeping.blocks.size(); ++b)
      before.push_back(this->read_direction(keeping, b));
    this->run(keeping, solver, 0.2, true);
    this->run(plain, solver, 0.2);
    for (std::size_t b = 0; b < keeping.blocks.size(); ++b) {
      const bool selected = keeping.modes[b] == Mode::preconditioned;
      EXPECT_EQ(this->read_direction(keeping, b).numbers,
                selected ? this->read_direction(plain, b).numbers : before[b].numbers)
          << b;
      EXPECT_EQ(keeping.direction_norms[b], plain.direction_norms[b]) << b;
    }
  }
}

TEST(PolarPlan, DependsOnTheShapeAlone) {
  EXPECT_EQ(kernels::plan_polar(NewtonSchulz{}, 3, 5, 1).steps.size(), 5u);
  EXPECT_TRUE(kernels::plan_polar(Svd{}, 3, 5, 1).steps.empty());
  // 1 / kappa_max of the largest singular value is 1 / (kappa_max sqrt(side)) of the norm.
  const auto steps = [](std::int64_t side) {
    return kernels::plan_polar(PolarExpress{.kappa_max = 100}, side, 2 * side, 1).steps;
  };
  EXPECT_EQ(kernels::plan_polar(PolarExpress{.kappa_max = 1e3}, 1, 1, 1).steps, steps(100));
  EXPECT_LT(steps(1).size(), steps(1024).size());
}

}  // namespace
}  // namespace shampoo::test
