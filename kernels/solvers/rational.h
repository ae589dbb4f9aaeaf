// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace shampoo::kernels {

/// p / q in lowest terms.
struct Rational {
  int p = 0;
  int q = 1;
};

/// The fraction with 1 <= q <= 64 that equals `root` to within one rounding, if there is one.
std::optional<Rational> rational(double root);

/// The fraction p / q = 1 / exponent used by Minimax; empty for exponents that it does not support.
/// Not always in lowest terms: p >= 2.
std::optional<Rational> minimax_root(double exponent);

}  // namespace shampoo::kernels
