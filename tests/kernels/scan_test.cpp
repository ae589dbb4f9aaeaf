// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/mixes.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

template <typename Tested>
class Scan : public AtPlace<Tested> {
 protected:
  Table table{
      all_mixes(), type_of<typename Tested::Real>, {.block_side = 400, .tile_elements = 1000}};
};

TYPED_TEST_SUITE(Scan, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(Scan, SumsTheSquaresOfPresentGradients) {
  Table& t = this->table;
  const double scale = 0.5;  // exact
  kernels::ScanResult result;
  this->backend->scan(t.elements(), &scale, true, &result);

  double norm = 0, count = 0;
  for (std::size_t b = 0; b < t.blocks.size(); ++b) {
    if (t.modes[b] == kernels::Mode::absent) continue;
    for (std::int64_t i = 0; i < t.blocks[b].elements; ++i, ++count) {
      const double g =
          0.5 * static_cast<double>(static_cast<typename TypeParam::Real>(t.gradient(b, i)));
      norm += g * g;
    }
  }
  EXPECT_NEAR(result.squared_norm, norm, norm * count * 0x1p-53);
  EXPECT_EQ(result.proceed, 1);
  EXPECT_EQ(result.first_bad, -1);
}

TYPED_TEST(Scan, FindsTheFirstBadTensorWhereverTheElementLies) {
  constexpr double bad[] = {std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  std::size_t tries = 0;
  for (std::size_t t = 0; t < this->table.cases.size(); ++t) {
    HostTensor& gradient = this->table.gradients[t];
    if (this->table.cases[t].mode == kernels::Mode::absent) continue;
    std::int64_t count = 1;
    for (const std::int64_t n : gradient.shape) count *= n;
    const std::int64_t place = static_cast<std::int64_t>(tries * 37) % count;
    const double old = gradient.read(place);
    gradient.write(place, bad[tries++ % 3]);
    const double scale = 1;
    for (const bool skips : {true, false}) {
      kernels::ScanResult result;
      this->backend->scan(this->table.elements(), &scale, skips, &result);
      EXPECT_EQ(result.first_bad, static_cast<std::int32_t>(t));
      EXPECT_EQ(result.proceed, skips ? 0 : 1);
    }
    gradient.write(place, old);
  }
  EXPECT_GT(tries, 10u);
}

TYPED_TEST(Scan, JudgesGradientsInFloat32WhereTheBlockSaysSo) {
  const TensorCase wide{.shape = {33}, .value = Type::float64, .gradient = Type::float64};
  Table t({wide, wide}, type_of<typename TypeParam::Real>);
  t.blocks[1].scans_in_float32 = true;
  t.gradients[0].write(7, 0x1p127);
  t.gradients[1].write(7, 0x1p127);
  constexpr bool in_float = sizeof(typename TypeParam::Real) == sizeof(float);
  for (const double scale : {1.0, 2.0}) {
    kernels::ScanResult result;
    this->backend->scan(t.elements(), &scale, true, &result);
    EXPECT_EQ(result.first_bad, scale == 1 ? -1 : in_float ? 0 : 1);
  }
}

TYPED_TEST(Scan, TakesLargeFiniteGradientsAsTheyAre) {
  // Squares overflow in float64 arithmetic: the norm is infinite, the gradient is not.
  Table t({{.shape = {33}, .value = Type::float64, .gradient = type_of<typename TypeParam::Real>}},
          type_of<typename TypeParam::Real>);
  t.gradients[0].write(7, std::numeric_limits<typename TypeParam::Real>::max());
  const double scale = 1;
  kernels::ScanResult result;
  this->backend->scan(t.elements(), &scale, true, &result);

  EXPECT_EQ(result.proceed, 1);
  EXPECT_EQ(result.first_bad, -1);
}

}  // namespace
}  // namespace shampoo::test
