// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/kernels/element_oracle.h"

namespace shampoo::test {
namespace {

using kernels::Mode;

/// The average A that an update leaves, in the slot `companion`.
template <typename Tested>
class ElementAverages : public Elementwise<Tested> {
 protected:
  using Real = typename Tested::Real;

  /// Of blocks, in turn: stays, becomes the value, moves a quarter of the way.
  static constexpr double weights_in_turn[] = {0, 1, 0.25};

  kernels::UpdatePass pass(Table& t, bool replaces) {
    weights_.clear();
    for (std::size_t b = 0; b < t.blocks.size(); ++b) weights_.push_back(weights_in_turn[b % 3]);
    kernels::UpdatePass pass = t.update_pass(kernels::AveragingRule::none);
    pass.grafting_norms = pass.direction_norms = nullptr;
    pass.value_average = {weights_.data(), t.companion.data(), replaces};
    return pass;
  }

  /// The same through a segment, which is then applied.
  void update_and_apply(Table& t, bool replaces) {
    this->backend->update(t.phase(), pass(t, replaces));
    const std::vector<kernels::Tile> tiles = t.tiles;
    const std::vector<kernels::Block> blocks = t.blocks;
    for (kernels::Tile& tile : t.tiles)
      tile.flat -= blocks[static_cast<std::size_t>(tile.block)].flat;
    for (kernels::Block& block : t.blocks) block.flat = 0;
    this->backend->apply(t.elements(), t.modes.data(), t.segment.data(), &t.proceed);
    t.tiles = tiles;
    t.blocks = blocks;
  }

  /// W, from the master where there is one.
  Real weight(Table& t, std::size_t b, std::int64_t i) { return Element<Real>(t, b, i).w; }
  Real average(Table& t, std::size_t b, std::int64_t i) {
    return static_cast<Real>(t.slot(t.companion, t.blocks[b].flat + i));
  }
  /// A where the update has left the value w.
  Real expected(std::size_t b, std::int64_t i, Real w) {
    const Real a = average(this->before, b, i);
    const double factor = weights_[b];
    if (this->before.modes[b] == Mode::absent || factor == 0) return a;
    return factor == 1 ? w : a + static_cast<Real>(factor) * (w - a);
  }

  std::vector<double> weights_;
};

TYPED_TEST_SUITE(ElementAverages, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(ElementAverages, TakeTheValuesThatAnUpdateLeaves) {
  Table& sent = this->after;
  this->update_and_apply(sent, false);
  EXPECT_NE(sent.companion, this->before.companion);
  for (std::size_t b = 0; b < sent.blocks.size(); ++b)
    for (std::int64_t i = 0; i < sent.blocks[b].elements; ++i)
      ASSERT_EQ(this->average(sent, b, i), this->expected(b, i, this->weight(sent, b, i)))
          << "block " << b;

  Table direct(all_mixes(), this->real, this->cut);
  kernels::UpdatePass pass = this->pass(direct, false);
  pass.segment = nullptr;
  this->backend->update(direct.phase(), pass);
  EXPECT_EQ(direct.companion, sent.companion);
}

TYPED_TEST(ElementAverages, TakeThePlaceOfValuesWhereTheyReplaceThem) {
  Table plain(all_mixes(), this->real, this->cut), direct(all_mixes(), this->real, this->cut);
  Table& sent = this->after;
  for (Table* const t : {&plain, &direct, &sent})
    for (kernels::Block& block : t->blocks) block.is_value = true;
  this->update_and_apply(plain, false);
  this->update_and_apply(sent, true);
  for (std::size_t b = 0; b < sent.blocks.size(); ++b) {
    const kernels::Block& block = sent.blocks[b];
    const Type type = sent.values[static_cast<std::size_t>(block.tensor)].type;
    const bool replaced = sent.modes[b] != Mode::absent && this->weights_[b] != 0;
    for (std::int64_t i = 0; i < block.elements; ++i) {
      const auto a = this->average(sent, b, i);
      ASSERT_EQ(a, this->expected(b, i, this->weight(plain, b, i)));
      double value = static_cast<double>(a);
      if (replaced && block.master >= 0) {
        value = static_cast<float>(value);
        ASSERT_EQ(read(sent.masters.data() + 4 * (block.master + i), Type::float32), value);
      }
      ASSERT_EQ(sent.value(b, i),
                replaced ? rounded(rounded(value, block.wire_type), type) : plain.value(b, i));
    }
  }

  kernels::UpdatePass pass = this->pass(direct, true);
  pass.segment = nullptr;
  this->backend->update(direct.phase(), pass);
  EXPECT_EQ(direct.companion, sent.companion);
  EXPECT_EQ(direct.masters, sent.masters);
  for (std::size_t t = 0; t < direct.values.size(); ++t)
    EXPECT_EQ(direct.values[t].memory, sent.values[t].memory);
}

TYPED_TEST(ElementAverages, StayWithoutTheProceedFlagAndWhereABlockTakesNoStep) {
  Table& t = this->after;
  t.proceed = 0;
  this->backend->update(t.phase(), this->pass(t, false));
  EXPECT_EQ(t.companion, this->before.companion);

  t.proceed = 1;
  kernels::UpdatePass pass = this->pass(t, false);
  std::fill(t.direction_norms.begin(), t.direction_norms.end(), std::nan(""));
  pass.direction_norms = t.direction_norms.data();
  this->backend->update(t.phase(), pass);
  for (std::size_t b = 0; b < t.blocks.size(); ++b) {
    if (t.modes[b] != Mode::preconditioned) continue;
    for (std::int64_t i = 0; i < t.blocks[b].elements; ++i)
      ASSERT_EQ(this->average(t, b, i), this->average(this->before, b, i));
  }
}

}  // namespace
}  // namespace shampoo::test
