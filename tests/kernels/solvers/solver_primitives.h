// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/kernels/square_batch.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {

inline const std::vector<std::int64_t> solver_sides = {1, 2, 2, 7, 7, 7, 64, 65, 91, 131};

template <typename Tested>
class SolverPrimitives : public AtPlace<Tested> {
 protected:
  using Number = typename Tested::Real;

  void SetUp() override {
    AtPlace<Tested>::SetUp();
    if (this->backend) this->backend->reserve({}, type_of<Number>, {solver_sides.back()});
  }

  SolverPrimitives() {
    for (std::size_t m = 0; m < a.size(); ++m) {
      const std::int64_t n = a.side(m);
      Numbers numbers(m + 1);
      for (auto* batch : {&a, &b})
        for (Number& x : batch->matrix(m)) x = static_cast<Number>(numbers.next());
      for (Number& x : a.pair(m)) x = static_cast<Number>(numbers.next());
      for (Number& x : c.matrix(m)) x = std::numeric_limits<Number>::quiet_NaN();
      scales.push_back(numbers.next());
      shifts.push_back(numbers.next());
      active.push_back(m % 3 != 1);
      fill_wishart<Number>(n, n + 1, m, spd.matrix(m));
    }
  }

  SquareBatch<Number> a{solver_sides}, b{solver_sides}, c{solver_sides}, spd{solver_sides};
  std::vector<double> scales, shifts;
  std::vector<std::uint8_t> active;
};

}  // namespace shampoo::test
