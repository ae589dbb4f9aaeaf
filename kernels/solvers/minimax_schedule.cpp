// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/minimax_schedule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace shampoo::kernels {

namespace {

using Real = long double;
using Polynomial = std::vector<Real>;  ///< coefficients of 1, y, y^2, ...

Real value(const Polynomial& q, Real y) {
  Real sum = 0;
  for (std::size_t k = q.size(); k-- > 0;) sum = sum * y + q[k];
  return sum;
}

/// f(x) = x q(x^p), which turns m = x^p into f^p. Where f is 1, N is the root.
Real stepped(const Polynomial& q, int p, Real x) { return x * value(q, std::pow(x, p)); }

/// The solution of a linear system, by elimination with pivots; the last column is the right side.
std::vector<Real> solve(std::vector<std::vector<Real>> rows) {
  const std::size_t n = rows.size();
  for (std::size_t k = 0; k < n; ++k) {
    const auto best = std::max_element(
        rows.begin() + static_cast<std::ptrdiff_t>(k), rows.end(),
        [&](const auto& r, const auto& s) { return std::abs(r[k]) < std::abs(s[k]); });
    std::swap(rows[k], *best);
    for (std::size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const Real factor = rows[i][k] / rows[k][k];
      for (std::size_t j = k; j <= n; ++j) rows[i][j] -= factor * rows[k][j];
    }
  }
  std::vector<Real> solution;
  for (std::size_t k = 0; k < n; ++k) solution.push_back(rows[k][n] / rows[k][k]);
  return solution;
}

/// A zero between two numbers where the polynomial has different signs; `high` if it has not.
Real zero_between(const Polynomial& q, Real low, Real high) {
  const bool rises = value(q, low) < 0;
  for (;;) {
    const Real middle = low + (high - low) / 2;
    if (!(middle > low && middle < high)) return high;
    ((value(q, middle) < 0) == rises ? low : high) = middle;
  }
}

/// The zeros in (0, end), ascending, of a polynomial whose zeros are all real and positive: between
/// two of them lies one of the derivative. For each that is not below it, `end`.
std::vector<Real> zeros(const Polynomial& q, Real end) {
  if (q.size() == 1) return {};
  Polynomial slope;
  for (std::size_t k = 1; k < q.size(); ++k) slope.push_back(static_cast<Real>(k) * q[k]);
  std::vector<Real> found;
  Real low = 0;
  std::vector<Real> bounds = zeros(slope, end);
  bounds.push_back(end);
  for (const Real high : bounds) {
    found.push_back(zero_between(q, low, high));
    low = high;
  }
  return found;
}

/// Where f of a best fit has its extrema up to `end`: at zeros of the sum of (k p + 1) q_k y^k,
/// with y = x^p.
std::vector<Real> extrema(const Polynomial& q, int p, Real end) {
  Polynomial slope = q;
  for (std::size_t k = 0; k < q.size(); ++k) slope[k] *= static_cast<Real>(k) * p + 1;
  std::vector<Real> found = zeros(slope, std::pow(end, p));
  for (Real& y : found) y = std::pow(y, Real(1) / p);
  return found;
}

/// The q that minimises max |f - 1| over [least, 1], by Remez exchange. {x, x^(p+1), x^(2p+1), ...}
/// is a Chebyshev system, so that f - 1 has its largest size at degree + 2 points, of alternating
/// sign.
Polynomial best_fit(int p, Real least, int degree) {
  const auto inner = static_cast<std::size_t>(degree);
  std::vector<Real> points;
  for (std::size_t i = 0; i < inner + 2; ++i) {
    const Real angle = std::numbers::pi_v<Real> * static_cast<Real>(i) / (degree + 1);
    points.push_back(least + (1 - least) * (1 - std::cos(angle)) / 2);
  }
  Polynomial q;
  for (int round = 0; round < 100; ++round) {
    std::vector<std::vector<Real>> rows;
    for (std::size_t i = 0; i < points.size(); ++i) {
      std::vector<Real>& row = rows.emplace_back();
      Real term = points[i];
      for (int k = 0; k <= degree; ++k, term *= std::pow(points[i], p)) row.push_back(term);
      row.push_back(i % 2 == 0 ? 1 : -1);
      row.push_back(1);
    }
    q = solve(std::move(rows));
    q.pop_back();
    Real moved = 0;
    const std::vector<Real> found = extrema(q, p, 1);
    for (std::size_t i = 0; i < inner; ++i)
      moved += std::abs(found[i] - std::exchange(points[i + 1], found[i]));
    // The error of q is the square of what its points were off by. In narrow intervals they keep
    // moving by 1e-12, which is rounding.
    if (!(moved > 1e-11L * (1 - least))) break;
  }
  return q;
}

/// Taylor polynomial of m^(-1/p) around 1.
Polynomial taylor(int p, int degree) {
  const auto count = static_cast<std::size_t>(degree) + 1;
  Polynomial q(count), power(count);  // (y - 1)^k
  power[0] = 1;
  Real binomial = 1;  // of -1/p over k
  for (int k = 0; k <= degree; ++k) {
    for (std::size_t j = 0; j < count; ++j) q[j] += binomial * power[j];
    binomial *= (-Real(1) / p - k) / (k + 1);
    for (std::size_t j = count; j-- > 1;) power[j] = power[j - 1] - power[j];
    power[0] = -power[0];
  }
  return q;
}

/// In x = m^(1/p).
struct Interval {
  Real least = 0, greatest = 1;
};

Polynomial polynomial(int p, const Interval& range, int degree, const Widening& widening) {
  // So close to 1 the fit to the widened interval would be the worse one, and badly conditioned.
  if (range.greatest - range.least < 1e-4L * range.greatest) return taylor(p, degree);
  const Real least = range.least * Real(widening.least);
  const Real greatest = range.greatest * Real(widening.greatest);
  Polynomial q = best_fit(p, least / greatest, degree);
  for (std::size_t k = 0; k < q.size(); ++k)
    q[k] /= std::pow(greatest, static_cast<Real>(k) * p + 1);
  return q;
}

Interval image(const Polynomial& q, int p, const Interval& range) {
  std::vector<Real> points = extrema(q, p, range.greatest);
  points.insert(points.end(), {range.least, range.greatest});
  Interval result{2, 0};
  for (const Real x : points) {
    if (x < range.least) continue;
    result.least = std::min(result.least, stepped(q, p, x));
    result.greatest = std::max(result.greatest, stepped(q, p, x));
  }
  return result;
}

void set_coefficients(const Polynomial& q, MinimaxStep& step) {
  const auto in_double = [](Real x, Real y, Real z) -> std::array<double, 3> {
    return {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)};
  };
  step.degree = static_cast<int>(q.size()) - 1;
  if (step.degree == 2) {
    step.coefficients = in_double(q[0], q[1], q[2]);
    return;
  }
  const Real c = std::sqrt(q[4]), b = q[3] / (2 * c), d = (q[2] - b * b) / c;
  step.coefficients = in_double(0, b, c);
  step.quartic = in_double(d, q[1] - b * d, q[0]);
}

struct FittedStep {
  MinimaxStep step;
  Interval after;
};

/// Appends steps of a degree until the tolerance is kept.
void add_steps(int degree, int p, double tolerance, const Widening& widening, Interval range,
               std::vector<FittedStep>& steps) {
  if (!steps.empty()) range = steps.back().after;
  const auto to_m = [p](Real x) { return static_cast<double>(std::pow(x, p)); };
  for (Real error = 1; error > tolerance;) {
    const Polynomial q = polynomial(p, range, degree, widening);
    MinimaxStep step{.least = to_m(range.least), .greatest = to_m(range.greatest)};
    set_coefficients(q, step);
    // N falls to where f has its first extremum, and has no larger value behind it.
    step.magnitude = static_cast<double>(q[0]);
    range = image(q, p, range);
    step.least_after = to_m(range.least);
    step.greatest_after = to_m(range.greatest);
    error = std::max(1 - range.least, range.greatest - 1);
    step.error = static_cast<double>(error);
    steps.push_back({step, range});
  }
}

}  // namespace

std::vector<MinimaxStep> minimax_schedule(int p, double kappa, double tolerance, int degree,
                                          const Widening& widening) {
  const Interval all{std::pow(1 / Real(kappa), Real(1) / p), 1};
  std::vector<FittedStep> fitted;
  add_steps(degree, p, tolerance, widening, all, fitted);
  for (std::size_t quartic = degree == 4 ? fitted.size() : 0; quartic-- > 0;) {
    std::vector<FittedStep> other(fitted.begin(),
                                  fitted.begin() + static_cast<std::ptrdiff_t>(quartic));
    add_steps(2, p, tolerance, widening, all, other);
    if (other.size() > fitted.size()) break;
    fitted = std::move(other);
  }
  std::vector<MinimaxStep> steps;
  for (const FittedStep& f : fitted) steps.push_back(f.step);
  return steps;
}

}  // namespace shampoo::kernels
