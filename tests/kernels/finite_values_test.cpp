// SPDX-License-Identifier: Apache-2.0
// What keeps numbers that are not finite out of values, masters and averages.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/rules/update_rule.h"
#include "tests/kernels/element_oracle.h"

namespace shampoo::test {
namespace {

using kernels::AveragingRule;
using kernels::Mode;

constexpr double infinity = std::numeric_limits<double>::infinity();

template <typename Tested>
class FiniteValues : public Elementwise<Tested> {};

TYPED_TEST_SUITE(FiniteValues, RealsAtAllPlaces, NameOfPlace);

/// Norms of directions, of which every third is not finite.
void set_norms(Table& t) {
  for (std::size_t b = 0; b < t.blocks.size(); ++b) {
    t.grafting_norms[b] = b % 6 == 4 ? infinity : 2;
    t.direction_norms[b] = b % 6 == 1 ? std::nan("") : 3;
  }
}

bool takes_step(const Table& t, std::size_t b) {
  return t.modes[b] != Mode::preconditioned || b % 3 != 1;
}

TYPED_TEST(FiniteValues, BlocksWithoutAFiniteDirectionKeepEverything) {
  for (const AveragingRule averaging : {AveragingRule::momentum, AveragingRule::iterate})
    for (const bool sends : {true, false}) {
      Table old(all_mixes(), this->real, this->cut), now(all_mixes(), this->real, this->cut);
      set_norms(now);
      kernels::UpdatePass pass = now.update_pass(averaging);
      kernels::NonFiniteDirections count;
      pass.non_finite = &count;
      if (!sends) pass.segment = nullptr;
      this->backend->update(now.phase(), pass);
      this->backend->synchronize();

      kernels::NonFiniteDirections expected;
      for (std::size_t b = 0; b < now.blocks.size(); ++b) {
        if (takes_step(now, b)) continue;
        const kernels::Block& block = now.blocks[b];
        ++expected.blocks;
        if (expected.first_tensor < 0 || block.tensor < expected.first_tensor)
          expected.first_tensor = block.tensor;
        for (std::int64_t i = 0; i < block.elements; ++i) {
          const Element<typename TypeParam::Real> e(old, b, i);
          ASSERT_EQ(now.slot(now.momentum, block.flat + i), e.momentum);
          ASSERT_EQ(now.value(b, i), old.value(b, i));
          const double sent = read(now.segment.data() + block.segment +
                                       static_cast<std::size_t>(i) * size_of(block.wire_type),
                                   block.wire_type);
          // W + -0 is W, whatever its sign.
          const double kept = block.is_value ? rounded(e.w, block.wire_type) : -0.0;
          ASSERT_TRUE(!sends || (sent == kept && std::signbit(sent) == std::signbit(kept)));
        }
      }
      EXPECT_GT(expected.blocks, 3);
      EXPECT_EQ(count.blocks, expected.blocks);
      EXPECT_EQ(count.first_tensor, expected.first_tensor);
      for (std::size_t b = 0; b < now.blocks.size(); ++b)
        if (takes_step(now, b) && now.modes[b] != Mode::absent) {
          EXPECT_NE(now.slot(now.momentum, now.blocks[b].flat),
                    old.slot(old.momentum, now.blocks[b].flat));
        }
    }
}

TYPED_TEST(FiniteValues, CountsAreAddedToThoseOfOtherPasses) {
  Table& t = this->after;
  set_norms(t);
  kernels::UpdatePass pass = t.update_pass(AveragingRule::none);
  kernels::NonFiniteDirections one, count{.blocks = 7, .first_tensor = 0};
  pass.non_finite = &one;
  this->backend->update(t.phase(), pass);
  pass.non_finite = &count;
  this->backend->update(t.phase(), pass);
  this->backend->synchronize();
  EXPECT_EQ(count.blocks, one.blocks + 7);
  EXPECT_EQ(count.first_tensor, 0);

  std::fill(t.direction_norms.begin(), t.direction_norms.end(), 3.0);
  std::fill(t.grafting_norms.begin(), t.grafting_norms.end(), 3.0);
  count = {};
  this->backend->update(t.phase(), pass);
  this->backend->synchronize();
  EXPECT_EQ(count.blocks, 0);
  EXPECT_EQ(count.first_tensor, -1);
}

/// A number as it arrives among values: values of 16 bits come from masters.
double arrived(double x, Type segment, Type values) {
  if (has_master(segment) || has_master(values)) x = rounded(x, Type::float32);
  return rounded(rounded(x, segment), values);
}

template <typename Real>
void expect_thresholds() {
  for (const Type segment : all_types)
    for (const Type values : all_types) {
      const Real threshold = kernels::overflow_threshold<Real>(segment, values);
      const Real below = std::nextafter(threshold, Real(0));
      EXPECT_EQ(arrived(threshold, segment, values), infinity)
          << name_of(segment) << ' ' << name_of(values);
      EXPECT_TRUE(std::isfinite(arrived(below, segment, values)))
          << name_of(segment) << ' ' << name_of(values);
    }
}

TEST(OverflowThreshold, IsTheLeastNumberThatArrivesAsInfinity) {
  expect_thresholds<float>();
  expect_thresholds<double>();
}

TYPED_TEST(FiniteValues, ElementsWhoseMomentumOverflowsKeepItAndTheirValue) {
  using Real = typename TypeParam::Real;
  const double most = std::numeric_limits<Real>::max();
  for (const AveragingRule averaging : {AveragingRule::momentum, AveragingRule::nesterov})
    for (const bool sends : {true, false}) {
      const std::vector<double> directions = {most, 1, -most, infinity, std::nan(""), -2};
      Table t({{.shape = {static_cast<std::int64_t>(directions.size())},
                .value = Type::float64,
                .wire_type = Type::float64,
                .mode = Mode::unpreconditioned,
                .coefficients = {.momentum = 0.5, .damp = 1, .step = -0.5}}},
              this->real);
      for (std::size_t i = 0; i < directions.size(); ++i) {
        t.values[0].write(static_cast<std::int64_t>(i), 3);
        write(t.direction.data() + i * sizeof(Real), this->real, directions[i]);
        write(t.momentum.data() + i * sizeof(Real), this->real,
              std::abs(directions[i]) == most ? directions[i] : 4);
      }
      kernels::UpdatePass pass = t.update_pass(averaging);
      if (!sends) pass.segment = nullptr;
      this->backend->update(t.phase(), pass);
      if (sends) this->backend->apply(t.elements(), t.modes.data(), t.segment.data(), &t.proceed);
      this->backend->synchronize();

      for (std::size_t i = 0; i < directions.size(); ++i) {
        const double d = directions[i], b = 2 + d;
        const bool moves = std::abs(d) < 3;
        EXPECT_EQ(t.slot(t.momentum, static_cast<std::int64_t>(i)), moves                 ? b
                                                                    : std::abs(d) == most ? d
                                                                                          : 4);
        const double p = averaging == AveragingRule::nesterov ? d + 0.5 * b : b;
        EXPECT_EQ(t.value(0, static_cast<std::int64_t>(i)), moves ? 3 - 0.5 * p : 3);
      }
    }
}

}  // namespace
}  // namespace shampoo::test
