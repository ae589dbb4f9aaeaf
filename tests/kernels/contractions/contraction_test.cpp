// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/contractions/contraction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/numbers.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using kernels::Mode;

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

TYPED_TEST(Contractions, RotationsAreProductsWithEveryBasisOrItsTranspose) {
  using Real = typename TypeParam::Real;
  for (const bool transposed : {false, true}) {
    Table before(contraction_cases(), this->real), now(contraction_cases(), this->real);
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
