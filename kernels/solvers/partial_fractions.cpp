// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/partial_fractions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shampoo::kernels {

std::vector<PartialFraction> partial_fractions(double exponent, double kappa, double tolerance) {
  using std::numbers::pi;
  const double a = exponent, least = 1 / kappa;
  const double h = 2 * pi * pi / std::log(4.1 / tolerance);
  const double factor = h * std::sin(pi * std::min(a, 1 - a)) / pi;
  // What one fraction leaves of the terms of an end, relative to the whole: of poles d times the
  // least z and less d^(3 - a), of poles 1 / d and more d^(2 + a).
  const double first = least * std::pow(tolerance / 2, 1 / (3 - a));
  const double last = std::pow(tolerance / 2, -1 / (2 + a));
  const int count = static_cast<int>(std::ceil(std::log(last / first) / h)) + 1;

  std::vector<PartialFraction> fractions;
  const auto term = [&](int i) {
    const double pole = first * std::exp(i * h);
    return PartialFraction{pole, factor * std::pow(pole, 1 - a)};
  };
  // 1 - q^n with q = exp(-h), for n near 0, too.
  const auto one_minus_power = [&](double n) { return -std::expm1(-h * n); };
  // Terms i < 0: sums of geometric series of the weights, and of weight times pole.
  const PartialFraction below = term(-1), above = term(count);
  fractions.push_back({.pole = below.pole * one_minus_power(1 - a) / one_minus_power(2 - a),
                       .weight = below.weight / one_minus_power(1 - a)});
  for (int i = 0; i < count; ++i) fractions.push_back(term(i));
  // Terms i >= count: weight / pole at z = 0, and its derivative.
  const double pole = above.pole * one_minus_power(1 + a) / one_minus_power(a);
  fractions.push_back(
      {.pole = pole, .weight = pole * above.weight / above.pole / one_minus_power(a)});
  return fractions;
}

}  // namespace shampoo::kernels
