// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_backend.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"

// Every number is compared with its definition in double precision. With k products in a sum of
// terms t the arithmetic type's error is at most (k + c) epsilon sum |t|, c for the few roundings
// around the sum; the sum of |t| is computed beside the sum.

namespace shampoo::test {
namespace {

using kernels::Coefficients;
using kernels::Mode;

struct Sum {
  double value = 0, size = 0;
  std::int64_t terms = 0;

  void add(double term) {
    value += term;
    size += std::abs(term);
    ++terms;
  }
};

/// Row-major number -> index along dimension k, and the number with that index removed.
struct Along {
  std::int64_t index, rest;
};

Along along(std::int64_t element, const std::vector<std::int64_t>& extent, std::size_t k) {
  std::int64_t after = 1;
  for (std::size_t i = k + 1; i < extent.size(); ++i) after *= extent[i];
  return {element / after % extent[k], element / (after * extent[k]) * after + element % after};
}

Coefficients some_coefficients(std::size_t i) {
  return {.l2 = i % 2 == 0 ? 0.0 : 0.25, .factor_keep = i % 3 == 0 ? 1.0 : 0.9, .factor_add = 0.3};
}

/// Sides around where algorithms change (48, 64), 1, primes, orders 0 to 4, every layout.
std::vector<TensorCase> all_shapes(Type type, Type other) {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {},        {1},        {7},        {131},      {1, 1},    {1, 9},       {9, 1},
      {5, 3},    {63, 65},   {48, 49},   {65, 64},   {130, 17}, {17, 130},    {2, 3, 5},
      {5, 1, 4}, {70, 3, 2}, {2, 70, 3}, {2, 3, 70}, {1, 6, 1}, {2, 3, 4, 5}, {3, 1, 5, 2}};
  constexpr Layout layouts[] = {Layout::packed, Layout::padded, Layout::shifted, Layout::spread,
                                Layout::transposed};
  std::vector<TensorCase> cases;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    for (std::size_t l = 0; l < 5; ++l)
      cases.push_back({shapes[i], type, l % 2 == 0 || i % 2 == 0 ? type : other, layouts[l],
                       Type::float32, false, (i + l) % 6 == 5 ? Mode::absent : Mode::grafted,
                       some_coefficients(i + l), 10 * i + l});
  return cases;
}

template <typename Real>
class Matrices : public ::testing::Test {
 protected:
  static constexpr Type real = type_of<Real>;
  static constexpr Type other = real == Type::float32 ? Type::bfloat16 : Type::float32;

  Matrices() { backend->reserve(before.stacks, real, 1); }

  std::unique_ptr<Backend> backend = cpu_backend({.threads = 2});
  Cut cut{.block_side = 80, .piece_elements = 700};
  Table before{all_shapes(real, other), real, cut}, after{all_shapes(real, other), real, cut};
};

using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Matrices, Reals);

template <typename Real>
std::vector<double> gradient_of(Table& t, std::size_t b) {
  std::vector<double> g;
  for (std::int64_t i = 0; i < t.blocks[b].elements; ++i) {
    Real x = static_cast<Real>(t.gradient(b, i)) * static_cast<Real>(t.scale);
    if (t.coefficients[b].l2 != 0)
      x = x + static_cast<Real>(t.coefficients[b].l2) * static_cast<Real>(t.value(b, i));
    g.push_back(static_cast<double>(x));
  }
  return g;
}

/// C of dimension k
std::vector<Sum> contraction(const std::vector<double>& g, const std::vector<std::int64_t>& extent,
                             std::size_t k) {
  const std::int64_t n = extent[k], elements = static_cast<std::int64_t>(g.size());
  std::vector<double> by_rest(g.size());
  for (std::int64_t e = 0; e < elements; ++e) {
    const Along at = along(e, extent, k);
    by_rest[static_cast<std::size_t>(at.rest * n + at.index)] = g[static_cast<std::size_t>(e)];
  }
  std::vector<Sum> c(static_cast<std::size_t>(n * n));
  for (std::int64_t rest = 0; rest < elements / n; ++rest)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j)
        c[static_cast<std::size_t>(i * n + j)].add(by_rest[static_cast<std::size_t>(rest * n + i)] *
                                                   by_rest[static_cast<std::size_t>(rest * n + j)]);
  return c;
}

template <typename Real>
void expect_factors(Table& old, Table& now) {
  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    for (std::size_t k = 0; k < now.stacks[s].extent.size(); ++k)
      for (std::int64_t m = 0; m < now.stacks[s].count; ++m) {
        const auto b = static_cast<std::size_t>(now.stacks[s].first_block + m);
        const bool is_left_alone =
            now.modes[b] == Mode::absent || now.stacks[s].factors[k] == nullptr;
        const std::int64_t n = now.stacks[s].extent[k];
        std::vector<Sum> c;
        if (!is_left_alone) c = contraction(gradient_of<Real>(old, b), now.stacks[s].extent, k);
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j <= n; ++j) {
            const double was = old.factor(s, k, m, i, j), is = now.factor(s, k, m, i, j);
            if (j > i || is_left_alone) {
              ASSERT_EQ(is, was) << "stack " << s << " dimension " << k;
              continue;
            }
            const Sum& sum = c[static_cast<std::size_t>(i * n + j)];
            const double keep = now.coefficients[b].factor_keep,
                         add = now.coefficients[b].factor_add;
            const double size = keep * std::abs(was) + add * sum.size;
            ASSERT_NEAR(is, keep * was + add * sum.value,
                        static_cast<double>(sum.terms + 6) * epsilon_of<Real> * size)
                << "stack " << s << " dimension " << k << " side " << n;
          }
      }
}

TYPED_TEST(Matrices, AccumulateAddsTheContractionOfEveryDimension) {
  for (const double scale : {1.0, 0.7}) {
    Table old(this->before.cases, this->real, this->cut), now(old.cases, this->real, this->cut);
    old.scale = now.scale = scale;
    for (kernels::Stack& stack : now.stacks)
      if (stack.extent.size() == 3) stack.factors[1] = nullptr;

    this->backend->accumulate_factors(now.phase(), now.stacks, now.selected(), nullptr);

    expect_factors<TypeParam>(old, now);
  }
}

TYPED_TEST(Matrices, AccumulateReadsMastersForDecay) {
  const std::vector<TensorCase> cases = {
      {.shape = {6, 5}, .value = Type::bfloat16, .coefficients = {.l2 = 1e3, .factor_keep = 0}}};
  Table t(cases, this->real);
  this->backend->accumulate_factors(t.phase(), t.stacks, t.selected(), t.masters.data());

  Sum c;
  for (std::int64_t j = 0; j < 5; ++j) {
    const double w = read(t.masters.data() + 4 * j, Type::float32);
    const double g = t.gradient(0, j) + 1e3 * w;
    c.add(g * g);
  }
  EXPECT_NEAR(t.factor(0, 0, 0, 0, 0), c.value, 20 * epsilon_of<TypeParam> * c.size);
}

/// Contraction with the root of every dimension in turn, with the error that it may have.
void contract(Table& t, std::size_t s, std::int64_t m, std::size_t k, std::vector<double>& d,
              std::vector<double>& size) {
  const std::vector<std::int64_t>& extent = t.stacks[s].extent;
  std::int64_t after = 1;
  for (std::size_t i = k + 1; i < extent.size(); ++i) after *= extent[i];
  const std::vector<double> from = d, from_size = size;
  for (std::size_t e = 0; e < d.size(); ++e) {
    const std::int64_t i = along(static_cast<std::int64_t>(e), extent, k).index;
    d[e] = size[e] = 0;
    for (std::int64_t j = 0; j < extent[k]; ++j) {
      const auto place = static_cast<std::size_t>(static_cast<std::int64_t>(e) + (j - i) * after);
      const double x = t.root(s, k, m, i, j);
      d[e] += x * from[place];
      size[e] += std::abs(x) * from_size[place];
    }
  }
}

TYPED_TEST(Matrices, PreconditionContractsWithEveryRoot) {
  Table& now = this->after;
  for (Table* t : {&now, &this->before})
    for (kernels::Stack& stack : t->stacks)
      if (stack.extent.size() == 3) stack.factors[1] = nullptr;

  this->backend->precondition(now.phase(), now.stacks, now.selected(), now.direction.data(),
                              now.direction_norms.data());

  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    for (std::int64_t m = 0; m < now.stacks[s].count; ++m) {
      const auto b = static_cast<std::size_t>(now.stacks[s].first_block + m);
      std::vector<double> d;
      for (std::int64_t i = 0; i < now.blocks[b].elements; ++i)
        d.push_back(this->before.slot(this->before.direction, now.blocks[b].flat + i));
      std::vector<double> size(d);
      for (double& x : size) x = std::abs(x);
      std::int64_t roundings = 4;
      const bool is_absent = now.modes[b] == Mode::absent;
      for (std::size_t k = 0; !is_absent && k < now.stacks[s].extent.size(); ++k) {
        if (now.stacks[s].factors[k] == nullptr) continue;
        contract(this->before, s, m, k, d, size);
        roundings += now.stacks[s].extent[k];
      }

      double norm = 0;
      for (std::size_t i = 0; i < d.size(); ++i) {
        const double x = now.slot(now.direction, now.blocks[b].flat + static_cast<std::int64_t>(i));
        norm += x * x;
        ASSERT_NEAR(
            x, d[i],
            is_absent ? 0 : static_cast<double>(roundings) * epsilon_of<TypeParam> * size[i])
            << "stack " << s;
      }
      if (is_absent)
        EXPECT_EQ(now.direction_norms[b], -1);
      else
        EXPECT_NEAR(now.direction_norms[b], norm, norm * static_cast<double>(d.size()) * 0x1p-53);
    }
}

TYPED_TEST(Matrices, OnlySelectedBlocksTakePart) {
  Table& now = this->after;
  for (auto& list : now.selections) std::erase_if(list, [](std::int32_t i) { return i % 2 == 0; });
  const auto selected = now.selected();
  this->backend->accumulate_factors(now.phase(), now.stacks, selected, nullptr);
  this->backend->precondition(now.phase(), now.stacks, selected, now.direction.data(),
                              now.direction_norms.data());

  std::int64_t touched = 0;
  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    for (std::int64_t m = 0; m < now.stacks[s].count; ++m) {
      const auto b = static_cast<std::size_t>(now.stacks[s].first_block + m);
      const bool is_selected = m % 2 == 1 && now.modes[b] != Mode::absent;
      EXPECT_EQ(now.direction_norms[b] != -1, is_selected);
      if (!now.stacks[s].extent.empty()) {
        EXPECT_EQ(now.factor(s, 0, m, 0, 0) != this->before.factor(s, 0, m, 0, 0), is_selected);
      }
      touched += is_selected;
    }
  EXPECT_GT(touched, 20);
}

TEST(Reserve, SufficesForTheSmallestBlocks) {
  for (const Type type : {Type::float32, Type::float64}) {
    const std::unique_ptr<Backend> backend = cpu_backend({.threads = 1});
    Table t({{.shape = {2, 1}, .coefficients = {.l2 = 1}}}, type);
    backend->reserve(t.stacks, type, 2);

    backend->accumulate_factors(t.phase(), t.stacks, t.selected(), nullptr);
    backend->precondition(t.phase(), t.stacks, t.selected(), t.direction.data(),
                          t.direction_norms.data());

    EXPECT_GT(t.direction_norms[0], 0);
  }
}

TEST(Reserve, IsNeededBeforeMatrixWork) {
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 1});
  Table t({{.shape = {5, 6}, .coefficients = {.l2 = 1}}}, Type::float32);

  EXPECT_THROW(backend->accumulate_factors(t.phase(), t.stacks, t.selected(), nullptr),
               std::logic_error);
}

}  // namespace
}  // namespace shampoo::test
