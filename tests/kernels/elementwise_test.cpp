// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/bits.h"
#include "tests/kernels/element_oracle.h"

namespace shampoo::test {
namespace {

using kernels::AveragingRule;
using kernels::DirectionRule;
using kernels::Mode;

/// Tiles of a table for apply() count from the start of their block's part of the segment.
void count_from_blocks(Table& t) {
  for (kernels::Block& block : t.blocks) {
    for (std::int32_t k = 0; k < block.tile_count; ++k)
      t.tiles[static_cast<std::size_t>(block.first_tile + k)].flat -= block.flat;
    block.flat = 0;
  }
}

TYPED_TEST_SUITE(Elementwise, RealsAtAllPlaces, NameOfPlace);

/// Within the error of a sum in double precision; -1, what it was before, where it is not wanted.
void expect_norm(double found, bool wanted, double norm, std::int64_t terms) {
  if (wanted)
    EXPECT_NEAR(found, norm, norm * static_cast<double>(terms) * 0x1p-53);
  else
    EXPECT_EQ(found, -1);
}

TYPED_TEST(Elementwise, FilterWritesMomentsDirectionAndNorms) {
  using Real = typename TypeParam::Real;
  for (const Pass& pass : all_passes()) {
    Table old(all_mixes(), this->real, this->cut), now(all_mixes(), this->real, this->cut);
    old.scale = now.scale = 0.7;
    this->backend->filter(now.phase(), pass.on(now));

    for (std::size_t b = 0; b < now.blocks.size(); ++b) {
      const bool preconditions = now.modes[b] == Mode::preconditioned;
      const std::int64_t count = now.blocks[b].elements;
      double norm = 0, grafting_norm = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        Element<Real> e(old, b, i);
        if (now.modes[b] != Mode::absent) e.filter(pass.preconditioner, pass.grafting);
        const std::int64_t flat = now.blocks[b].flat + i;
        ASSERT_EQ(now.slot(now.first_moment, flat), e.m);
        ASSERT_EQ(now.slot(now.second_moment, flat), e.v);
        ASSERT_EQ(now.slot(now.companion, flat), e.x);
        ASSERT_EQ(now.slot(now.grafting_moment, flat), e.grafting_v);
        ASSERT_EQ(now.slot(now.grafting_companion, flat), e.grafting_x);
        ASSERT_EQ(now.slot(now.direction, flat), now.modes[b] == Mode::absent ? e.d
                                                 : preconditions              ? e.preconditioned
                                                                              : e.grafted);
        norm += static_cast<double>(e.preconditioned) * static_cast<double>(e.preconditioned);
        grafting_norm += static_cast<double>(e.grafted) * static_cast<double>(e.grafted);
      }
      expect_norm(now.grafting_norms[b], preconditions && pass.grafting, grafting_norm, count);
      expect_norm(now.direction_norms[b], preconditions && pass.direction_norms, norm, count);
    }
  }
}

TYPED_TEST(Elementwise, FilterWorksWithoutAFirstMomentWhereItsWeightIsOne) {
  std::vector<TensorCase> cases = {{.shape = {5, 7}, .coefficients = {.filter_scale = 3}}};
  Table t(cases, this->real);

  this->backend->filter(t.phase(), {.first_moment = nullptr,
                                    .preconditioner = {},
                                    .grafting = {},
                                    .direction = t.direction.data()});

  for (std::int64_t i = 0; i < 35; ++i) EXPECT_EQ(t.slot(t.direction, i), t.gradient(0, i));
}

TYPED_TEST(Elementwise, UpdateWritesSegmentMomentumAndMasters) {
  using Real = typename TypeParam::Real;
  for (const auto& [averaging, grafts] :
       {std::pair{AveragingRule::none, true}, std::pair{AveragingRule::momentum, false},
        std::pair{AveragingRule::nesterov, true}, std::pair{AveragingRule::iterate, true}}) {
    Table old(all_mixes(), this->real, this->cut), now(all_mixes(), this->real, this->cut);
    for (std::size_t b = 0; b < now.blocks.size(); ++b) {
      now.grafting_norms[b] = 2.0 + static_cast<double>(b);
      now.direction_norms[b] = b % 5 == 0 ? 0.0 : 3.0;
    }
    kernels::UpdatePass pass = now.update_pass(averaging);
    if (!grafts) pass.grafting_norms = pass.direction_norms = nullptr;
    this->backend->update(now.phase(), pass);

    for (std::size_t b = 0; b < now.blocks.size(); ++b) {
      const kernels::Block& block = now.blocks[b];
      const double s =
          now.modes[b] == Mode::preconditioned && grafts
              ? std::sqrt(now.grafting_norms[b]) / (std::sqrt(now.direction_norms[b]) + 1e-16)
              : 1.0;
      for (std::int64_t i = 0; i < block.elements; ++i) {
        Element<Real> e(old, b, i);
        const unsigned char* const sent = now.segment.data() + block.segment +
                                          static_cast<std::size_t>(i) * size_of(block.wire_type);
        if (now.modes[b] == Mode::absent) {
          ASSERT_EQ(*sent, 0x5a);
          ASSERT_EQ(now.slot(now.momentum, block.flat + i), e.momentum);
          continue;
        }
        double expected = e.update(static_cast<Real>(s), averaging);
        ASSERT_EQ(now.slot(now.momentum, block.flat + i), e.momentum);
        if (block.master >= 0 || block.is_value) {
          expected = e.w + static_cast<Real>(expected);
          // A sum that overflows a type leaves the value.
          const Type value = now.values[static_cast<std::size_t>(block.tensor)].type;
          if (!std::isfinite(rounded(expected, value)) ||
              !std::isfinite(rounded(expected, block.wire_type)))
            expected = e.w;
        }
        if (block.master >= 0) {
          expected = static_cast<float>(expected);
          ASSERT_EQ(read(now.masters.data() + 4 * (block.master + i), Type::float32), expected);
        }
        ASSERT_EQ(read(sent, block.wire_type), rounded(expected, block.wire_type));
      }
    }
  }
}

TYPED_TEST(Elementwise, OnePassHasTheBitsOfFilterAndUpdate) {
  for (const auto& [rule, averaging] : {std::pair{DirectionRule::identity, AveragingRule::none},
                                        std::pair{DirectionRule::diagonal, AveragingRule::momentum},
                                        std::pair{DirectionRule::maximal, AveragingRule::iterate},
                                        std::pair{DirectionRule::centered, AveragingRule::nesterov},
                                        std::pair{DirectionRule::sign, AveragingRule::none}}) {
    Table two(all_mixes(), this->real, this->cut), one(all_mixes(), this->real, this->cut);
    two.scale = one.scale = 0.7;
    const Pass pass{rule, {}, false};
    kernels::UpdatePass last = two.update_pass(averaging);
    last.grafting_norms = last.direction_norms = nullptr;
    this->backend->filter(two.phase(), pass.on(two));
    this->backend->update(two.phase(), last);

    kernels::GradientPass gradients = pass.on(one);
    last = one.update_pass(averaging);
    last.grafting_norms = last.direction_norms = nullptr;
    gradients.direction = nullptr;
    last.direction = nullptr;
    this->backend->filter_and_update(one.phase(), gradients, last);
    expect_equal(one, two);
  }
}

TYPED_TEST(Elementwise, UpdateWithoutASegmentChangesValuesAsApplyDoes) {
  for (const AveragingRule averaging : {AveragingRule::none, AveragingRule::iterate}) {
    Table sent(all_mixes(), this->real, this->cut), direct(all_mixes(), this->real, this->cut);
    for (Table* const t : {&sent, &direct}) {
      std::fill(t->grafting_norms.begin(), t->grafting_norms.end(), 2.0);
      std::fill(t->direction_norms.begin(), t->direction_norms.end(), 3.0);
    }
    this->backend->update(sent.phase(), sent.update_pass(averaging));
    count_from_blocks(sent);
    this->backend->apply(sent.elements(), sent.modes.data(), sent.segment.data(), &sent.proceed);
    EXPECT_NE(sent.segment, direct.segment);

    kernels::UpdatePass pass = direct.update_pass(averaging);
    pass.segment = nullptr;
    this->backend->update(direct.phase(), pass);
    sent.segment = direct.segment;
    expect_equal(direct, sent);
    EXPECT_NE(direct.values.front().memory, this->before.values.front().memory);
  }
}

TYPED_TEST(Elementwise, ApplyAddsOrAssignsInTheWiderType) {
  Table& now = this->after;
  Numbers numbers(77);
  for (std::size_t b = 0; b < now.blocks.size(); ++b) {
    const kernels::Block& block = now.blocks[b];
    for (std::int64_t i = 0; i < block.elements; ++i)
      write(now.segment.data() + block.segment +
                static_cast<std::size_t>(i) * size_of(block.wire_type),
            block.wire_type, rounded(numbers.next(), block.wire_type));
  }
  count_from_blocks(now);
  this->backend->apply(now.elements(), now.modes.data(), now.segment.data(), &now.proceed);

  for (std::size_t b = 0; b < now.blocks.size(); ++b) {
    const kernels::Block& block = now.blocks[b];
    const Type type = now.values[static_cast<std::size_t>(block.tensor)].type;
    for (std::int64_t i = 0; i < block.elements; ++i) {
      const double old = this->before.value(b, i);
      const double u = read(now.segment.data() + block.segment +
                                static_cast<std::size_t>(i) * size_of(block.wire_type),
                            block.wire_type);
      const bool in_double = type == Type::float64 || block.wire_type == Type::float64;
      const double sum = in_double
                             ? old + u
                             : static_cast<double>(static_cast<float>(old) + static_cast<float>(u));
      const double expected = now.modes[b] == Mode::absent ? old
                              : block.is_value             ? rounded(u, type)
                                                           : rounded(sum, type);
      ASSERT_EQ(now.value(b, i), expected);
    }
  }
}

TYPED_TEST(Elementwise, NothingIsWrittenWithoutTheProceedFlag) {
  Table& t = this->after;
  t.proceed = 0;
  const auto selected = t.selected();
  this->backend->reserve(t.stacks, this->real, {1});
  this->backend->filter(t.phase(),
                        Pass{DirectionRule::maximal, DirectionRule::centered, true}.on(t));
  this->backend->accumulate_factors(t.phase(), t.stacks, selected, t.masters.data());
  this->backend->precondition(t.phase(), t.stacks, selected, t.direction.data(),
                              t.direction_norms.data());
  this->backend->update(t.phase(), t.update_pass(AveragingRule::nesterov));
  kernels::UpdatePass direct = t.update_pass(AveragingRule::nesterov);
  direct.segment = nullptr;
  this->backend->update(t.phase(), direct);
  this->backend->filter_and_update(t.phase(), Pass{DirectionRule::diagonal, {}, false}.on(t),
                                   direct);
  count_from_blocks(t);
  this->backend->apply(t.elements(), t.modes.data(), t.segment.data(), &t.proceed);

  const Table& old = this->before;
  expect_equal(t, old);
  EXPECT_EQ(t.grafting_companion, old.grafting_companion);
  EXPECT_EQ(t.direction, old.direction);
  EXPECT_EQ(t.factors, old.factors);
  EXPECT_EQ(t.direction_norms, old.direction_norms);
}

TYPED_TEST(Elementwise, NothingOutsideATensorIsTouched) {
  Table& t = this->after;
  count_from_blocks(t);
  this->backend->apply(t.elements(), t.modes.data(), t.segment.data(), &t.proceed);

  for (std::size_t i = 0; i < t.values.size(); ++i) {
    // What elements do not cover still has its old bytes.
    Bytes now = t.values[i].memory, old = this->before.values[i].memory;
    std::int64_t count = 1;
    for (const std::int64_t n : t.values[i].shape) count *= n;
    for (std::int64_t k = 0; k < count; ++k) {
      const auto at = static_cast<std::size_t>(static_cast<unsigned char*>(t.values[i].at(k)) -
                                               t.values[i].memory.data());
      for (std::size_t byte = 0; byte < size_of(t.values[i].type); ++byte)
        now[at + byte] = old[at + byte] = 0;
    }
    EXPECT_EQ(now, old);
  }
}

}  // namespace
}  // namespace shampoo::test
