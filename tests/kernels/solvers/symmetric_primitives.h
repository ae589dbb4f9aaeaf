// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/square_batch.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {

// Rows of the last two are read 16 bytes at a time.
inline const std::vector<std::int64_t> some_sides = {1, 2, 2, 7, 7, 64, 65, 65, 131, 72, 136};

template <typename Tested>
class SymmetricPrimitives : public AtPlace<Tested> {
 protected:
  using Number = typename Tested::Real;

  void SetUp() override {
    AtPlace<Tested>::SetUp();
    if (this->backend) this->backend->reserve({}, type_of<Number>, {some_sides.back()});
    for (std::size_t m = 0; m < a.size(); ++m)
      fill_wishart<Number>(a.side(m), a.side(m) + 1, m, a.matrix(m));
    for (std::size_t m = 0; m < d.size(); ++m)
      fill_wishart<Number>(d.side(m), d.side(m) + 1, 17 + m, d.matrix(m));
  }

  /// C <- weights of A B and D, from operands in a form.
  void multiply(SquareBatch<Number>& left, SquareBatch<Number>& right, kernels::Form operands,
                const kernels::Weights& weights, SquareBatch<Number>& addend,
                SquareBatch<Number>& product) {
    const auto in_form = [&](SquareBatch<Number>& from, SquareBatch<Number>& to) {
      this->backend->convert(from.squares(), to.squares(), operands);
      return to.squares();
    };
    SquareBatch<Number> x(left.sides()), y(right.sides()), z(addend.sides());
    const auto of_left = in_form(left, x);
    this->backend->multiply_symmetric(of_left, &left == &right ? of_left : in_form(right, y),
                                      operands, weights, in_form(addend, z), product.squares(),
                                      kernels::Form::dense);
  }
  void multiply(SquareBatch<Number>& left, SquareBatch<Number>& right, kernels::Form operands,
                const kernels::Weights& weights, SquareBatch<Number>& product) {
    multiply(left, right, operands, weights, left, product);
  }

  /// A in a form <- factors with the lower triangles of `from`, divided by `numbers`.
  void unpack(SquareBatch<Number>& from, kernels::Form form, SquareBatch<Number>& to) {
    for (std::size_t m = 0; m < from.size(); ++m)
      for (std::int64_t i = 0, n = from.side(m); i < n; ++i)
        for (std::int64_t j = 0; j <= i; ++j)
          from.pair(m)[static_cast<std::size_t>(i * (n + 1) + j)] = from.at(m, i, j);
    const std::vector<double> ones(from.size(), 1);
    this->backend->unpack_factors(
        from.pairs(), {.scales = ones.data(), .sizes = numbers.data(), .form = form}, to.squares());
  }

  /// Dense numbers of what is in a form: without a product, its first operand.
  void read(SquareBatch<Number>& from, kernels::Form form, SquareBatch<Number>& to) {
    this->backend->multiply_symmetric(from.squares(), from.squares(), form,
                                      {.product = 0, .first = 1}, from.squares(), to.squares(),
                                      kernels::Form::dense);
  }

  SquareBatch<Number> a{some_sides}, b{some_sides}, c{some_sides}, d{some_sides};
  std::vector<double> numbers = std::vector<double>(some_sides.size(), -1);
};

}  // namespace shampoo::test
