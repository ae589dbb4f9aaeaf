// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/minimax_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shampoo::kernels {

namespace {

using Real = long double;
using Polynomial = std::array<Real, 3>;  ///< a + b y + c y^2

/// The solution of a linear system, by elimination with pivots; the last column is the right side.
std::array<Real, 4> solve(std::array<std::array<Real, 5>, 4> rows) {
  for (int k = 0; k < 4; ++k) {
    const auto best = std::max_element(rows.begin() + k, rows.end(), [&](auto& r, auto& s) {
      return std::abs(r[k]) < std::abs(s[k]);
    });
    std::swap(rows[k], *best);
    for (int i = 0; i < 4; ++i) {
      if (i == k) continue;
      const Real factor = rows[i][k] / rows[k][k];
      for (int j = k; j < 5; ++j) rows[i][j] -= factor * rows[k][j];
    }
  }
  return {rows[0][4] / rows[0][0], rows[1][4] / rows[1][1], rows[2][4] / rows[2][2],
          rows[3][4] / rows[3][3]};
}

/// f(x) = x q(x^p), which turns m = x^p into f^p. Where f is 1, N is the root.
Real value(const Polynomial& q, int p, Real x) {
  const Real y = std::pow(x, p);
  return x * (q[0] + y * (q[1] + y * q[2]));
}

/// The two extrema of f: the zeros of a + (p + 1) b y + (2p + 1) c y^2 with y = x^p.
std::pair<Real, Real> extrema(const Polynomial& q, int p) {
  const Real b = (p + 1) * q[1] / 2, c = (2 * p + 1) * q[2];
  const Real far = -b + std::sqrt(b * b - q[0] * c);  // b < 0 < c
  return {std::pow(q[0] / far, Real(1) / p), std::pow(far / c, Real(1) / p)};
}

/// The q that minimises max |f - 1| over [least, 1], by Remez exchange. {x, x^(p+1), x^(2p+1)} is a
/// Chebyshev system, so that f - 1 has its largest size at four points, of alternating sign.
Polynomial best_fit(int p, Real least) {
  std::array<Real, 4> points = {least, least + (1 - least) / 4, least + 3 * (1 - least) / 4, 1};
  Polynomial q{};
  for (int round = 0; round < 100; ++round) {
    std::array<std::array<Real, 5>, 4> rows;
    for (int i = 0; i < 4; ++i) {
      const Real x = points[i], y = std::pow(x, p);
      rows[i] = {x, x * y, x * y * y, i % 2 == 0 ? Real(1) : Real(-1), 1};
    }
    const std::array<Real, 4> solution = solve(rows);
    q = {solution[0], solution[1], solution[2]};
    const auto [first, second] = extrema(q, p);
    const Real moved = std::abs(first - points[1]) + std::abs(second - points[2]);
    points[1] = first;
    points[2] = second;
    if (!(moved > 1e-15L * (1 - least))) break;
  }
  return q;
}

/// Taylor polynomial of m^(-1/p) around 1.
Polynomial taylor(int p) {
  const Real b = Real(1) / p, c = (b + b * b) / 2;
  return {1 + b + c, -b - 2 * c, c};
}

/// In x = m^(1/p).
struct Interval {
  Real least = 0, greatest = 1;
};

Polynomial coefficients(int p, const Interval& range, const Widening& widening) {
  // So close to 1 the fit to the widened interval would be the worse one, and badly conditioned.
  if (range.greatest - range.least < 1e-4L * range.greatest) return taylor(p);
  const Real least = range.least * Real(widening.least);
  const Real greatest = range.greatest * Real(widening.greatest);
  const Polynomial q = best_fit(p, least / greatest);
  const Real scale = std::pow(greatest, p);
  return {q[0] / greatest, q[1] / (greatest * scale), q[2] / (greatest * scale * scale)};
}

Interval image(const Polynomial& q, int p, const Interval& range) {
  const auto [first, second] = extrema(q, p);
  Interval result{2, 0};
  for (const Real x : {range.least, range.greatest, first, second}) {
    if (!(x >= range.least && x <= range.greatest)) continue;
    result.least = std::min(result.least, value(q, p, x));
    result.greatest = std::max(result.greatest, value(q, p, x));
  }
  return result;
}

}  // namespace

std::vector<MinimaxStep> minimax_schedule(int p, double kappa, double tolerance,
                                          const Widening& widening) {
  std::vector<MinimaxStep> steps;
  Interval range{std::pow(1 / Real(kappa), Real(1) / p), 1};
  const auto to_m = [p](Real x) { return static_cast<double>(std::pow(x, p)); };
  for (Real error = 1; error > tolerance;) {
    const Polynomial q = coefficients(p, range, widening);
    MinimaxStep step{.least = to_m(range.least), .greatest = to_m(range.greatest)};
    for (int i = 0; i < 3; ++i) step.coefficients[i] = static_cast<double>(q[i]);
    // N falls and rises, and has no zero in between.
    const auto [a, b, c] = step.coefficients;
    step.magnitude = std::max(a, a + step.greatest * (b + step.greatest * c));
    range = image(q, p, range);
    step.least_after = to_m(range.least);
    step.greatest_after = to_m(range.greatest);
    error = std::max(1 - range.least, range.greatest - 1);
    step.error = static_cast<double>(error);
    steps.push_back(step);
  }
  return steps;
}

}  // namespace shampoo::kernels
