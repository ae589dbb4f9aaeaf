// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/rational.h"

#include <cmath>
#include <limits>

namespace shampoo::kernels {

std::optional<Rational> rational(double root) {
  for (int q = 1; q <= 64; ++q) {
    const double p = std::round(root * q);
    if (p < 1 || p > 1e6) continue;
    if (std::abs(p / q - root) <= std::numeric_limits<double>::epsilon() * root)
      return Rational{static_cast<int>(p), q};
  }
  return std::nullopt;
}

std::optional<Rational> minimax_root(double exponent) {
  std::optional<Rational> root = rational(1 / exponent);
  if (!root || root->q > root->p) return std::nullopt;
  // X = A^(-1/2) has a range that products can hold, X = A^-1 has not.
  if (root->p == 1) root = Rational{2, 2};
  if (root->p > 64 || root->q > 4) return std::nullopt;
  return root;
}

}  // namespace shampoo::kernels
