// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/kernels/element_oracle.h"

namespace shampoo::test {
namespace {

template <typename Tested>
class ElementValues : public Elementwise<Tested> {};

TYPED_TEST_SUITE(ElementValues, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(ElementValues, ReadValuesFillsMastersAndASlot) {
  using Real = typename TypeParam::Real;
  Table& t = this->after;
  this->backend->read_values(t.elements(), t.masters.data(), t.momentum.data());

  for (std::size_t b = 0; b < t.blocks.size(); ++b)
    for (std::int64_t i = 0; i < t.blocks[b].elements; ++i) {
      if (t.blocks[b].master >= 0) {
        ASSERT_EQ(read(t.masters.data() + 4 * (t.blocks[b].master + i), Type::float32),
                  t.value(b, i));
      }
      ASSERT_EQ(t.slot(t.momentum, t.blocks[b].flat + i), static_cast<Real>(t.value(b, i)));
    }
}

TYPED_TEST(ElementValues, ReadValuesLeavesOutWhatIsNull) {
  Table& t = this->after;
  this->backend->read_values(t.elements(), nullptr, t.momentum.data());
  EXPECT_EQ(t.masters, this->before.masters);
  EXPECT_NE(t.momentum, this->before.momentum);
  t.momentum = this->before.momentum;
  this->backend->read_values(t.elements(), t.masters.data(), nullptr);
  EXPECT_NE(t.masters, this->before.masters);
  EXPECT_EQ(t.momentum, this->before.momentum);
}

TYPED_TEST(ElementValues, PackedValuesAreThoseThatApplyAssigns) {
  Table& t = this->after;
  for (kernels::Block& block : t.blocks) block.is_value = true;
  this->backend->pack_values(t.elements(), t.segment.data());

  for (std::size_t b = 0; b < t.blocks.size(); ++b)
    for (std::int64_t i = 0; i < t.blocks[b].elements; ++i)
      ASSERT_EQ(read(t.segment.data() + t.blocks[b].segment +
                         static_cast<std::size_t>(i) * size_of(t.blocks[b].wire_type),
                     t.blocks[b].wire_type),
                rounded(t.value(b, i), t.blocks[b].wire_type));
}

TYPED_TEST(ElementValues, EvaluateExtrapolatesFromTheIterate) {
  using Real = typename TypeParam::Real;
  Table& t = this->after;
  std::vector<double> extrapolations;
  for (std::size_t b = 0; b < t.blocks.size(); ++b)
    extrapolations.push_back(-0.1 * static_cast<double>(b % 4));
  this->backend->evaluate(t.elements(), {.extrapolations = extrapolations.data(),
                                         .iterate = t.momentum.data(),
                                         .masters = t.masters.data(),
                                         .segment = t.segment.data()});

  for (std::size_t b = 0; b < t.blocks.size(); ++b)
    for (std::int64_t i = 0; i < t.blocks[b].elements; ++i) {
      const Element<Real> e(this->before, b, i);
      const Real x = e.w + static_cast<Real>(extrapolations[b]) * (e.momentum - e.w);
      ASSERT_EQ(read(t.segment.data() + t.blocks[b].segment +
                         static_cast<std::size_t>(i) * size_of(t.blocks[b].wire_type),
                     t.blocks[b].wire_type),
                rounded(static_cast<double>(x), t.blocks[b].wire_type));
    }
  EXPECT_EQ(t.momentum, this->before.momentum);
  EXPECT_EQ(t.masters, this->before.masters);
}

}  // namespace
}  // namespace shampoo::test
