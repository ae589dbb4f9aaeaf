// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/shampoo/toy_model.h"
#include "tests/support/device/ranks_at.h"

namespace shampoo::test {
namespace {

/// Bits of numbers that conversions tend to change: -0, the least denormal, a large one,
/// infinities.
template <typename Bits>
std::vector<Bits> special(int mantissa) {
  const Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const Bits infinity = static_cast<Bits>((sign - 1) >> mantissa << mantissa);
  std::vector<Bits> bits;
  for (const Bits b :
       {Bits{0}, Bits{1}, static_cast<Bits>((Bits{1} << mantissa) - 1),
        static_cast<Bits>(infinity - 1), infinity, static_cast<Bits>(infinity >> 1)}) {
    bits.push_back(b);
    bits.push_back(static_cast<Bits>(b | sign));
  }
  return bits;
}

class SpecialValues : public ::testing::TestWithParam<Place> {
 protected:
  template <typename Bits>
  void come_back(Type type, int mantissa) const {
    for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::float64})
      for (const int ranks : {1, 3})
        run_ranks_at(GetParam(), ranks, [&](Communicator& communicator, kernels::Backend& backend) {
          const std::vector<Bits> bits = special<Bits>(mantissa);
          std::vector<Bits> values = bits;
          std::vector<float> gradients(values.size(), 1.0f);
          Placed<Bits> value(&backend, values);
          Placed<float> gradient(&backend, gradients);
          Recipe recipe = quick_recipe();
          recipe.averaging = ScheduleFree{};
          recipe.arithmetic = arithmetic;
          if (type == Type::float32) recipe.communication.type = Type::bfloat16;
          const auto count = static_cast<std::int64_t>(values.size());
          Optimizer optimizer(backend, communicator,
                              {{{{.name = "w",
                                  .shape = {count},
                                  .value = Tensor(value.data(), type),
                                  .gradient = gradient.data()}},
                                {},
                                recipe}});
          optimizer.step();
          const std::vector<Bits> trained = value.fetch();
          values = bits;
          value.send();
          Evaluation guard = optimizer.evaluate();
          EXPECT_NE(value.fetch(), bits);
          guard.end();
          EXPECT_EQ(value.fetch(), bits) << name_of(type) << ' ' << ranks;
          EXPECT_NE(trained, bits);
        });
  }
};

TEST_P(SpecialValues, ComeBackBitForBit) {
  require_ranks(GetParam());
  if (IsSkipped()) return;
  come_back<std::uint64_t>(Type::float64, 52);
  come_back<std::uint32_t>(Type::float32, 23);
  come_back<std::uint16_t>(Type::bfloat16, 7);
  come_back<std::uint16_t>(Type::float16, 10);
}

INSTANTIATE_TEST_SUITE_P(On, SpecialValues, testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
