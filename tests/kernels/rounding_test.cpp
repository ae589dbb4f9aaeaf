// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

class Rounding : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    require(GetParam());
    if (!IsSkipped() && !HasFatalFailure()) backend = backend_with_host_arrays(GetParam(), 1);
  }

  std::unique_ptr<kernels::Backend> backend;
};

TEST_P(Rounding, To16BitsHappensOnceAndToEven) {
  // Ties, neighbours of ties, least numbers and overflow, from both arithmetic types.
  for (const Type wire_type : {Type::bfloat16, Type::float16}) {
    std::vector<double> inputs;
    const int bits = format_of(wire_type).bits;
    for (const double near : {0x1p-14, 0x1p-20, 0.75, 1.0, 3.0, 40000.0, 65504.0}) {
      const double place = std::ldexp(1.0, std::ilogb(near) - bits + 1);
      for (const double part : {0.0, 0.25, 0.5, 0.75, 1.5, 0.5 + 0x1p-40, 0.5 - 0x1p-40})
        for (const double sign : {1.0, -1.0}) inputs.push_back(sign * (near + part * place));
    }
    inputs.insert(inputs.end(), {0.0, 65519.99, 65520.0, 1e30, 0x1p-25, 0x1.8p-25, 0x1p-26});
    Table t({{.shape = {static_cast<std::int64_t>(inputs.size())},
              .wire_type = wire_type,
              .mode = kernels::Mode::unpreconditioned,
              .coefficients = {.step = 1}}},
            Type::float64);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      write(t.direction.data() + 8 * i, Type::float64, inputs[i]);
    backend->update(t.phase(), {.direction = t.direction.data(), .segment = t.segment.data()});

    for (std::size_t i = 0; i < inputs.size(); ++i)
      EXPECT_EQ(read(t.segment.data() + 2 * i, wire_type), rounded(inputs[i], wire_type))
          << name_of(wire_type) << " " << inputs[i];
  }
}

TEST_P(Rounding, EveryFloat16AndBfloat16IsReadExactly) {
  for (const Type type : {Type::bfloat16, Type::float16}) {
    Table t({{.shape = {256, 256}, .value = type}}, Type::float32);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      std::memcpy(static_cast<std::byte*>(t.values[0].base()) + 2 * bits, &stored, 2);
    }
    backend->read_values(t.elements(), t.masters.data(), nullptr);

    for (std::int64_t i = 0; i < 65536; ++i) {
      const double x = t.value(0, i), master = read(t.masters.data() + 4 * i, Type::float32);
      if (std::isnan(x))
        EXPECT_TRUE(std::isnan(master));
      else
        EXPECT_EQ(master, x);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Rounding, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
