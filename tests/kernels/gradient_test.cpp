// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/rules/gradient_state_rule.h"
#include "tests/kernels/mixes.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(ClipFactor, IsThatOfTorch) {
  EXPECT_EQ(kernels::clip_factor(1, 0), 1);
  EXPECT_EQ(kernels::clip_factor(5, 25), 5 / (5 + 1e-6));
  EXPECT_EQ(kernels::clip_factor(5.1, 25), 1);
  EXPECT_EQ(kernels::clip_factor(1, 1e100), 1 / (1e50 + 1e-6));
  EXPECT_EQ(kernels::clip_factor(infinity, 25), 1);
  EXPECT_EQ(kernels::clip_factor(1, infinity), 1);
  EXPECT_EQ(kernels::clip_factor(1, std::nan("")), 1);
}

template <typename Tested>
class Gradients : public AtPlace<Tested> {
 protected:
  using Real = typename Tested::Real;
  Table table{all_mixes(), type_of<Real>, {.tile_elements = 1000}};  // a block for each tensor
};

TYPED_TEST_SUITE(Gradients, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(Gradients, AreClippedTensorByTensor) {
  Table& t = this->table;
  const double one = 1, scale = 0.5, most = 3;
  kernels::ScanResult result;
  this->backend->scan(t.elements(), &one, true, &result);
  std::vector<double> scales(t.cases.size(), -1);
  this->backend->scale_tensors(t.elements(), most, &scale, scales.data());

  int clipped = 0;
  for (std::size_t b = 0; b < t.blocks.size(); ++b) {
    double squares = 0;
    for (std::int64_t i = 0; i < t.blocks[b].elements && t.modes[b] != kernels::Mode::absent; ++i) {
      const auto g = static_cast<double>(static_cast<typename TypeParam::Real>(t.gradient(b, i)));
      squares += g * g;
    }
    const double expected = scale * std::min(1.0, most / (std::sqrt(squares) + 1e-6));
    clipped += expected < scale;
    EXPECT_NEAR(scales[static_cast<std::size_t>(t.blocks[b].tensor)], expected, 1e-12);
  }
  EXPECT_GT(clipped, 0);
}

TYPED_TEST(Gradients, AreAddedToValuesOfAnyTypeAndStride) {
  using Number = typename TypeParam::Real;
  for (const double keep : {1.0, 0.75, 0.0}) {
    Table t(all_mixes(), type_of<Number>, {.block_side = 40, .tile_elements = 1000});
    std::vector<HostTensor> expected = t.values;
    const double add = 1.0 / 3;
    for (std::size_t b = 0; b < t.blocks.size(); ++b) {
      const bool present = t.modes[b] != kernels::Mode::absent;
      for (std::int64_t i = 0; i < t.blocks[b].elements; ++i) {
        const Number kept = static_cast<Number>(keep) * static_cast<Number>(t.value(b, i));
        const Number g =
            present ? static_cast<Number>(add) * static_cast<Number>(t.gradient(b, i)) : 0;
        HostTensor& to = expected[static_cast<std::size_t>(t.blocks[b].tensor)];
        to.write(t.place(b, i), rounded(static_cast<double>(kept + g), to.type));
      }
    }
    this->backend->accumulate(t.elements(), &keep, &add);
    for (std::size_t v = 0; v < expected.size(); ++v)
      EXPECT_EQ(t.values[v].memory, expected[v].memory) << v << ' ' << keep;
  }
}

TYPED_TEST(Gradients, ThatAreAllAbsentOnlyKeepValues) {
  Table& t = this->table;
  const auto before = t.values;
  const double one = 1, zero = 0;
  kernels::TileTable elements = t.elements();
  elements.tensors.gradients = nullptr;
  elements.tensors.gradient_types = nullptr;
  this->backend->accumulate(elements, &one, &one);
  for (std::size_t v = 0; v < before.size(); ++v) {
    // Float64 is rounded to float32 arithmetic.
    if (size_of(before[v].type) > sizeof(typename TypeParam::Real)) continue;
    EXPECT_EQ(t.values[v].memory, before[v].memory) << v;
  }
  t.values[0].write(0, std::nan(""));
  this->backend->accumulate(elements, &zero, &one);
  for (std::size_t b = 0; b < t.blocks.size(); ++b)
    for (std::int64_t i = 0; i < t.blocks[b].elements; ++i) ASSERT_EQ(t.value(b, i), 0);
}

}  // namespace
}  // namespace shampoo::test
