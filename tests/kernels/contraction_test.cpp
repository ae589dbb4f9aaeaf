// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "grouping/box.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"
#include "tests/support/device/backends.h"

// Products with the matrices of dimensions, compared with their definition in double precision. A
// sum of k products carries an error of at most k epsilon sum |t|, and as much of what it is made
// of; the sums of |t| are computed along with the sums.

namespace shampoo::test {
namespace {

using kernels::Mode;
using Extent = std::vector<std::int64_t>;

/// A number, and the sum of the sizes of its terms.
struct Term {
  double value = 0, size = 0;
};

/// x contracted along dimension k with the matrix of elements element(i, j).
template <typename Element>
std::vector<Term> contracted(const std::vector<Term>& x, const Extent& extent, std::size_t k,
                             const Element& element) {
  std::int64_t after = 1;
  for (std::size_t i = k + 1; i < extent.size(); ++i) after *= extent[i];
  std::vector<Term> y(x.size());
  for (std::int64_t e = 0; e < static_cast<std::int64_t>(x.size()); ++e) {
    const std::int64_t i = e / after % extent[k];
    for (std::int64_t j = 0; j < extent[k]; ++j) {
      const double m = element(i, j);
      const Term& from = x[static_cast<std::size_t>(e + (j - i) * after)];
      y[static_cast<std::size_t>(e)].value += m * from.value;
      y[static_cast<std::size_t>(e)].size += std::abs(m) * from.size;
    }
  }
  return y;
}

/// Blocks with two long sides and others, of orders 0 to 4.
std::vector<TensorCase> cases() {
  const std::vector<Extent> shapes = {
      {},         {7},         {131},       {9, 1},     {5, 3},       {63, 65},
      {65, 64},   {130, 17},   {65, 66},    {70, 80},   {80, 70},     {72, 66},
      {2, 70, 3}, {66, 2, 67}, {65, 70, 3}, {2, 3, 70}, {2, 3, 4, 5}, {9, 8, 1, 70}};
  std::vector<TensorCase> all;
  for (const Extent& shape : shapes)
    for (const Mode mode : {Mode::preconditioned, Mode::absent, Mode::unpreconditioned})
      all.push_back({.shape = shape, .mode = mode, .seed = all.size() + 1});
  return all;
}

/// Dimensions without a matrix: of two matrices the first or the last, of others one between.
void leave_some_alone(const Extent& extent, std::vector<void*>& matrices) {
  if (extent == Extent{80, 70}) matrices[0] = nullptr;
  if (extent == Extent{72, 66} || extent == Extent{65, 70, 3}) matrices[1] = nullptr;
}

std::vector<Term> direction_of(const Table& t, std::size_t b) {
  std::vector<Term> x;
  for (std::int64_t e = 0; e < t.blocks[b].elements; ++e) {
    const double from = t.slot(t.direction, t.blocks[b].flat + e);
    x.push_back({from, std::abs(from)});
  }
  return x;
}

/// What rounding operands may change, relative to the sum of sizes: in float32 a device multiplies
/// blocks with two long sides in TF32. Roots are rounded to it by at most 2^-11; what they multiply
/// is cut, by less than 2^-10.
double operand_error(Type type, Place place, const kernels::Stack& stack) {
  if (type != Type::float32 || place == Place::cpu || stack.extent.empty()) return 0;
  const std::int64_t longest = *std::ranges::max_element(stack.extent);
  if (std::min(longest, grouping::numel(stack.extent) / longest) <= 64) return 0;
  const auto roots = std::ranges::count_if(stack.factors, [](void* p) { return p != nullptr; });
  return std::pow((1 + 0x1p-11) * (1 + 0x1p-10), static_cast<double>(roots)) - 1;
}

template <typename Tested>
class Contractions : public AtPlace<Tested> {
 protected:
  static constexpr Type real = type_of<typename Tested::Real>;

  /// Bases of numbers as random as any; products need no more.
  void add_bases(Table& t) {
    for (kernels::Stack& stack : t.stacks) {
      stack.layout = kernels::FactorLayout::packed;
      for (std::size_t k = 0; k < stack.extent.size(); ++k) {
        const std::int64_t n = stack.extent[k];
        bases.push_back(
            Numbers(bases.size() + 99).template some<typename Tested::Real>(stack.count * n * n));
        stack.bases.push_back(bases.back().data());
      }
      leave_some_alone(stack.extent, stack.bases);
    }
  }

  std::vector<std::vector<typename Tested::Real>> bases;
};

TYPED_TEST_SUITE(Contractions, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(Contractions, DirectionsAreProductsWithEveryRoot) {
  using Real = typename TypeParam::Real;
  Table before(cases(), this->real), now(cases(), this->real);
  for (std::size_t s = 0; s < now.stacks.size(); ++s) {
    leave_some_alone(now.stacks[s].extent, now.stacks[s].factors);
    std::erase_if(now.selections[s], [&](std::int32_t i) {
      return now.modes[static_cast<std::size_t>(now.stacks[s].first_block + i)] !=
             Mode::preconditioned;
    });
  }
  this->backend->reserve(now.stacks, this->real, {131});

  this->backend->precondition(now.phase(), now.stacks, now.selected(), now.direction.data(),
                              now.direction_norms.data());

  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    for (std::int64_t m = 0; m < now.stacks[s].count; ++m) {
      const Extent& extent = now.stacks[s].extent;
      const auto b = static_cast<std::size_t>(now.stacks[s].first_block + m);
      const bool is_changed = now.modes[b] == Mode::preconditioned;
      std::vector<Term> x = direction_of(before, b);
      double error = 4 * epsilon_of<Real>;
      for (std::size_t k = 0; is_changed && k < extent.size(); ++k) {
        if (now.stacks[s].factors[k] == nullptr) continue;
        x = contracted(x, extent, k,
                       [&](std::int64_t i, std::int64_t j) { return before.root(s, k, m, i, j); });
        error += static_cast<double>(extent[k]) * epsilon_of<Real>;
      }
      error += operand_error(this->real, TypeParam::place, now.stacks[s]);
      double norm = 0;
      for (std::int64_t e = 0; e < now.blocks[b].elements; ++e) {
        const double p = now.slot(now.direction, now.blocks[b].flat + e);
        const Term& expected = x[static_cast<std::size_t>(e)];
        norm += p * p;
        ASSERT_NEAR(p, expected.value, is_changed ? error * expected.size : 0)
            << "stack " << s << ", element " << e;
      }
      if (is_changed)
        EXPECT_NEAR(now.direction_norms[b], norm, norm * static_cast<double>(x.size()) * 0x1p-53);
      else
        EXPECT_EQ(now.direction_norms[b], -1);
    }
}

/// A library could choose by the number of matrices.
TYPED_TEST(Contractions, DirectionsHaveTheSameBitsAloneAndAmongMany) {
  std::vector<TensorCase> many;
  for (const Extent& shape : std::vector<Extent>{{66, 70}, {128, 96}})
    for (int i = 0; i < 40; ++i) many.push_back({.shape = shape, .seed = many.size() + 1});
  const auto directions = [&](const std::vector<TensorCase>& some) {
    auto t = std::make_unique<Table>(some, this->real);
    this->backend->reserve(t->stacks, this->real, {128});
    this->backend->precondition(t->phase(), t->stacks, t->selected(), t->direction.data(),
                                t->direction_norms.data());
    return t;
  };
  const auto all = directions(many);
  for (std::size_t b = 0; b < all->blocks.size(); b += 19) {
    const auto alone = directions({many[static_cast<std::size_t>(all->blocks[b].tensor)]});
    for (std::int64_t e = 0; e < all->blocks[b].elements; ++e)
      ASSERT_EQ(alone->slot(alone->direction, e),
                all->slot(all->direction, all->blocks[b].flat + e));
  }
}

TYPED_TEST(Contractions, RotationsAreProductsWithEveryBasisOrItsTranspose) {
  using Real = typename TypeParam::Real;
  for (const bool transposed : {false, true}) {
    Table before(cases(), this->real), now(cases(), this->real);
    this->bases.clear();
    this->add_bases(now);
    this->backend->reserve(now.stacks, this->real, {131});

    this->backend->rotate(now.phase(), now.stacks, now.selected(), transposed,
                          now.direction.data());

    for (const kernels::Stack& stack : now.stacks)
      for (std::int64_t m = 0; m < stack.count; ++m) {
        const auto b = static_cast<std::size_t>(stack.first_block + m);
        const kernels::Block& block = now.blocks[b];
        const bool rotates = now.modes[b] == Mode::preconditioned;
        std::vector<Term> x = direction_of(before, b);
        double roundings = 0;
        for (std::size_t k = 0; rotates && k < stack.extent.size(); ++k) {
          if (stack.bases[k] == nullptr) continue;
          const std::int64_t n = stack.extent[k];
          const Real* const q = static_cast<const Real*>(stack.bases[k]) + m * n * n;
          x = contracted(x, stack.extent, k, [&](std::int64_t i, std::int64_t j) {
            return static_cast<double>(transposed ? q[j * n + i] : q[i * n + j]);
          });
          roundings += static_cast<double>(n);
        }
        for (std::int64_t e = 0; e < block.elements; ++e) {
          const Term& expected = x[static_cast<std::size_t>(e)];
          ASSERT_NEAR(now.slot(now.direction, block.flat + e), expected.value,
                      roundings * epsilon_of<Real> * expected.size)
              << "stack " << (&stack - now.stacks.data()) << ", element " << e;
        }
      }
  }
}

TYPED_TEST(Contractions, WhitenedFactorsAddWhatTheRootsOfOtherDimensionsLeave) {
  using Real = typename TypeParam::Real;
  std::vector<TensorCase> some;
  for (const Extent& shape : std::vector<Extent>{{70, 80}, {66, 2, 67}, {90}, {3, 4}})
    for (const Mode mode : {Mode::preconditioned, Mode::absent})
      some.push_back({.shape = shape, .mode = mode, .seed = some.size() + 1});
  Table before(some, this->real), now(some, this->real);
  for (kernels::Stack& stack : now.stacks) stack.whitens = true;
  this->backend->reserve(now.stacks, this->real, {90});

  this->backend->accumulate_whitened_factors(now.phase(), now.stacks, now.selected(), nullptr,
                                             false);

  // Factors change while the roots of their arrays, which others read, stay.
  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    for (std::int64_t m = 0; m < now.stacks[s].count; ++m) {
      const Extent& extent = now.stacks[s].extent;
      const auto b = static_cast<std::size_t>(now.stacks[s].first_block + m);
      for (std::size_t k = 0; k < extent.size(); ++k) {
        std::vector<Term> h;
        for (std::int64_t e = 0; e < now.blocks[b].elements; ++e) {
          const double g = now.modes[b] == Mode::absent ? 0 : before.gradient(b, e);
          h.push_back({g, std::abs(g)});
        }
        double roundings = 8;
        for (std::size_t j = 0; j < extent.size(); ++j) {
          if (j == k) continue;
          h = contracted(h, extent, j, [&](std::int64_t p, std::int64_t q) {
            return before.root(s, j, m, p, q);
          });
          roundings += 2 * static_cast<double>(extent[j]);
        }
        const std::int64_t n = extent[k], elements = now.blocks[b].elements;
        std::int64_t after = 1;
        for (std::size_t i = k + 1; i < extent.size(); ++i) after *= extent[i];
        roundings += static_cast<double>(elements / n);
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j <= i; ++j) {
            const double was = before.factor(s, k, m, i, j);
            Term sum{was, std::abs(was)};
            for (std::int64_t rest = 0; rest < elements / n; ++rest) {
              const std::int64_t first = rest / after * after * n + rest % after;
              const Term &x = h[static_cast<std::size_t>(first + i * after)],
                         &y = h[static_cast<std::size_t>(first + j * after)];
              sum.value += x.value * y.value;
              sum.size += x.size * y.size;
            }
            ASSERT_NEAR(now.factor(s, k, m, i, j), sum.value,
                        roundings * epsilon_of<Real> * sum.size)
                << "stack " << s << " dimension " << k;
          }
      }
    }
}

}  // namespace
}  // namespace shampoo::test
