// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "grouping/box.h"
#include "tests/kernels/contractions/contraction.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using kernels::Mode;

/// In float32 a device multiplies blocks with two long sides in float16.
bool has_half_operands(Type type, Place place, const kernels::Stack& stack) {
  if (type != Type::float32 || place == Place::cpu || stack.extent.empty()) return false;
  const std::int64_t longest = *std::ranges::max_element(stack.extent);
  return std::min(longest, grouping::numel(stack.extent) / longest) > 64;
}

/// The norm of x, and the sum of the sizes on the diagonal of a root, as operands are scaled by.
double norm_of(const std::vector<Term>& x) {
  double sum = 0;
  for (const Term& term : x) sum += term.value * term.value;
  return std::sqrt(sum);
}
double trace_of(Table& t, std::size_t s, std::size_t k, std::int64_t member) {
  double sum = 0;
  for (std::int64_t i = 0; i < t.stacks[s].extent[k]; ++i)
    sum += std::abs(t.root(s, k, member, i, i));
  return sum;
}

/// Directions of one block, with the errors that operands of float16 may cause: those of F and of
/// roots, scaled to at least 2^14, change by at most max(2^-11 |x|, 2^-25), and so do the products
/// between, which are scaled by 2^-15 and what their operands are.
std::vector<Term> direction_of_roots(Table& t, std::size_t s, std::int64_t member, bool narrow) {
  const kernels::Stack& stack = t.stacks[s];
  std::vector<Term> x = direction_of(t, static_cast<std::size_t>(stack.first_block + member));
  const auto rounding = [&](double scaled_by) -> OperandError {
    if (!narrow) return {};
    return {0x1p-11, 0x1p-39 * scaled_by};
  };
  double norm = norm_of(x);
  const auto round_all = [&] {
    for (Term& term : x) term.rounded_size = rounding(norm).largest(term.rounded_size);
  };
  // In the order of a device.
  for (std::size_t k = stack.extent.size(); k-- > 0;) {
    if (stack.factors[k] == nullptr) continue;
    round_all();
    const double trace = trace_of(t, s, k, member);
    x = contracted(
        x, stack.extent, k,
        [&](std::int64_t i, std::int64_t j) { return t.root(s, k, member, i, j); },
        rounding(trace));
    norm *= 2 * trace;
  }
  return x;
}

template <typename Tested>
class Directions : public AtPlace<Tested> {
 protected:
  static constexpr Type real = type_of<typename Tested::Real>;
};

TYPED_TEST_SUITE(Directions, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(Directions, AreProductsWithEveryRoot) {
  using Real = typename TypeParam::Real;
  Table before(contraction_cases(), this->real), now(contraction_cases(), this->real);
  for (std::size_t s = 0; s < now.stacks.size(); ++s) {
    leave_some_alone(now.stacks[s].extent, now.stacks[s].factors);
    leave_some_alone(before.stacks[s].extent, before.stacks[s].factors);
    std::erase_if(now.selections[s], [&](std::int32_t i) {
      return now.modes[static_cast<std::size_t>(now.stacks[s].first_block + i)] !=
             Mode::preconditioned;
    });
  }
  this->backend->reserve(now.stacks, this->real, {131});
  for (std::size_t b = 0; b < now.blocks.size(); ++b)
    if (now.modes[b] == Mode::preconditioned)
      now.direction_norms[b] = std::pow(norm_of(direction_of(now, b)), 2);

  this->backend->precondition(now.phase(), now.stacks, now.selected(), now.direction.data(),
                              now.direction_norms.data());

  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    for (std::int64_t m = 0; m < now.stacks[s].count; ++m) {
      const Extent& extent = now.stacks[s].extent;
      const auto b = static_cast<std::size_t>(now.stacks[s].first_block + m);
      const bool is_changed = now.modes[b] == Mode::preconditioned;
      const bool narrow = has_half_operands(this->real, TypeParam::place, now.stacks[s]);
      const std::vector<Term> x =
          is_changed ? direction_of_roots(before, s, m, narrow) : direction_of(before, b);
      double error = 4 * epsilon_of<Real>;
      for (std::size_t k = 0; k < extent.size(); ++k)
        if (now.stacks[s].factors[k] != nullptr)
          error += static_cast<double>(extent[k]) * epsilon_of<Real>;
      double norm = 0;
      for (std::int64_t e = 0; e < now.blocks[b].elements; ++e) {
        const double p = now.slot(now.direction, now.blocks[b].flat + e);
        const Term& expected = x[static_cast<std::size_t>(e)];
        norm += p * p;
        const double of_operands = expected.rounded_size - expected.size;
        ASSERT_NEAR(p, expected.value, is_changed ? error * expected.rounded_size + of_operands : 0)
            << "stack " << s << ", element " << e;
      }
      if (is_changed)
        EXPECT_NEAR(now.direction_norms[b], norm, norm * static_cast<double>(x.size()) * 0x1p-53);
      else
        EXPECT_EQ(now.direction_norms[b], -1);
    }
}

/// Powers of two are exact, in scales of float16, too: 2^-70 F with roots 2^30 R would be 0 and
/// infinite there.
TYPED_TEST(Directions, HaveTheSameBitsAtEveryScaleOfGradientsAndRoots) {
  using Real = typename TypeParam::Real;
  constexpr int of_direction = -70, of_roots = 30;
  const auto directions = [&](bool scaled) {
    auto t = std::make_unique<Table>(contraction_cases(), this->real);
    const auto scale = [&](Bytes& slot, int exponent) {
      Real* const numbers = reinterpret_cast<Real*>(slot.data());
      for (std::size_t i = 0; i < slot.size() / sizeof(Real); ++i)
        numbers[i] = std::ldexp(numbers[i], scaled ? exponent : 0);
    };
    scale(t->direction, of_direction);
    for (auto& arrays : t->factors)
      for (auto& array : arrays) scale(array, of_roots);
    for (std::size_t b = 0; b < t->blocks.size(); ++b)
      t->direction_norms[b] = std::pow(norm_of(direction_of(*t, b)), 2);
    this->backend->reserve(t->stacks, this->real, {131});
    this->backend->precondition(t->phase(), t->stacks, t->selected(), t->direction.data(),
                                t->direction_norms.data());
    return t;
  };
  const auto plain = directions(false), scaled = directions(true);
  for (std::size_t b = 0; b < plain->blocks.size(); ++b) {
    if (plain->modes[b] != Mode::preconditioned) continue;
    const int exponent = of_direction + of_roots * static_cast<int>(plain->extents[b].size());
    for (std::int64_t e = 0; e < plain->blocks[b].elements; ++e) {
      const std::int64_t flat = plain->blocks[b].flat + e;
      ASSERT_EQ(scaled->slot(scaled->direction, flat),
                std::ldexp(plain->slot(plain->direction, flat), exponent))
          << "block " << b << ", element " << e;
    }
  }
}

/// A library could choose by the number of matrices.
TYPED_TEST(Directions, HaveTheSameBitsAloneAndAmongMany) {
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

}  // namespace
}  // namespace shampoo::test
