// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/minimax_root.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace shampoo::kernels {

namespace {

// What the dense matrices of the workspace hold.
constexpr int m = 0;      // A, damped and scaled -> I
constexpr int x = 1;      // X -> M_0^(-1/p)
constexpr int n = 2;      // first A, scaled; Q, then N of this step, and its powers
constexpr int other = 3;  // first A A; where a product goes before it is exchanged

/// Products in float16 keep M definite while its condition number times their rounding, 2^-11, is
/// well below 1/2.
constexpr double half_kappa = 300;

/// X has condition numbers of up to kappa^(1/p). Below this, its products are of float16 in all
/// steps, and lose up to 2^-11 of it, 3 %, of its least eigenvalue: those of the largest of A. At
/// p = 2 and kappa = 2^21, errors of roots, in their norm, were up to four times as large so, at
/// p = 4 the same.
constexpr double half_kappa_of_root = 64;

/// N^k M is made of several products where N^k would exceed this. N^k is largest where M is
/// smallest, and its rounding meets the largest eigenvalues of M, too: in float32, a power of 1400
/// made errors of roots twice as large, and as halves one of 20 up to 2.5 times.
constexpr double largest_power = 64;
constexpr double largest_half_power = 8;

/// Allowance for rounding in max |M - I|.
constexpr double slack = 0.1;

class Iteration {
 public:
  Iteration(SolverWorkspace& workspace, const MinimaxPlan& plan) : w_(workspace), plan_(plan) {}

  /// M <- (A + shift I) / size ; X <- N of the first step
  void start(double trace_exponent) {
    choose_form(0);
    w_.unpack_factors(n, {.floors = w_.table().epsilons().data(),
                          .trace_exponent = trace_exponent,
                          .sizes = sizes(),
                          .form = form_});
    multiply(n, n, {}, other, Form::dense);
    const MinimaxStep& first = plan_.steps.front();
    w_.backend().damp(w_.matrix(n), w_.matrix(other),
                      {.epsilons = w_.table().epsilons().data(),
                       .kappa_max = plan_.kappa_max,
                       .polynomial = q_of(first),
                       .scales = sizes(),
                       .clamped = static_cast<double*>(w_.clamped.data())},
                      w_.matrix(m), w_.matrix(x), form_);
    finish_polynomial(first, x);
  }

  /// The form of this step's operands. Condition numbers fall: after half there is no split.
  void choose_form(std::size_t s) {
    const bool half = plan_.mixes && plan_.steps[s].kappa() <= half_kappa;
    form_ = half ? Form::half : Form::split;
    is_last_ = s + 1 == plan_.steps.size();
  }

  /// X <- X N
  void step(const MinimaxStep& step) {
    const auto [a, b, c] = q_of(step);
    multiply(m, m, {.product = c, .first = b, .identity = a}, n, form_);
    finish_polynomial(step, n);
    const Form operands = plan_.mixes_root ? Form::half : form_;
    // The last X is the root, or what its power is made of.
    const Form last = plan_.root.q > 1 ? Form::split : Form::dense;
    multiply(x, n, {}, other, is_last_ ? last : operands, operands);
    w_.exchange(x, other);
  }

  /// M <- T^p M, where T is N, or X while that is N.
  void advance(int t, double magnitude) {
    const double most = form_ == Form::half ? largest_half_power : largest_power;
    for (int power = plan_.root.p; power > 0;) {
      const bool squares = power > 1 && magnitude * magnitude <= most;
      if (!squares || power % 2 == 1) {
        multiply(t, m, {}, other, form_);
        w_.exchange(m, other);
        --power;
      }
      if (!squares) continue;
      // T <- T^2
      multiply(t, t, {}, other, form_);
      w_.exchange(n, other);
      t = n;
      magnitude *= magnitude;
      power /= 2;
    }
  }

  void check(const MinimaxStep& last, const std::int32_t* proceed) {
    const double limit = std::max(1 - last.least, last.greatest - 1) + slack;
    w_.backend().check_identity(w_.matrix(m), form_, limit, proceed, w_.table().active().data(),
                                static_cast<std::int32_t*>(w_.failed.data()));
  }

  /// X <- size^-exponent X^q
  void finish() {
    form_ = Form::split;
    for (int power = 1, from = x; power < plan_.root.q; ++power, from = n) {
      multiply(x, from, {}, other, power + 1 < plan_.root.q ? Form::split : Form::dense);
      w_.exchange(n, other);
    }
    w_.pack_roots(plan_.root.q > 1 ? n : x, {.scales = sizes(), .exponent = -plan_.exponent});
  }

 private:
  /// In a step of halves, whose rounding hides that of the identity, Q + d / 2 I takes the place of
  /// Q: N = (Q + d / 2 I)^2 + e M + (f - d^2 / 4) I has one addend, not two. Else 0.
  double half_of_d(const MinimaxStep& step) const {
    return form_ == Form::half && step.degree == 4 ? step.quartic[0] / 2 : 0;
  }

  std::array<double, 3> q_of(const MinimaxStep& step) const {
    const auto [a, b, c] = step.coefficients;
    return {a + half_of_d(step), b, c};
  }

  /// T <- N, where T has q_of(step)
  void finish_polynomial(const MinimaxStep& step, int t) {
    if (step.degree == 2) return;
    const auto [d, e, f] = step.quartic;
    const double shift = half_of_d(step);
    multiply(t, t, {.first = d - 2 * shift, .addend = e, .identity = f + shift * (shift - d)},
             other, form_);
    w_.exchange(t, other);
  }

  void multiply(int left, int right, const Weights& weights, int product, Form form) {
    multiply(left, right, weights, product, form, form_);
  }

  /// The addend is M.
  void multiply(int left, int right, const Weights& weights, int product, Form form,
                Form operands) {
    w_.backend().multiply_symmetric(w_.matrix(left), w_.matrix(right), operands, weights,
                                    w_.matrix(m), w_.matrix(product), form);
  }

  double* sizes() { return static_cast<double*>(w_.sizes.data()); }

  SolverWorkspace& w_;
  const MinimaxPlan& plan_;
  Form form_ = Form::split;
  bool is_last_ = false;
};

/// Products of float32 keep M definite while its condition number, 2 (kappa_max + 1), times their
/// rounding, 2^-24, is well below 1/2. Of factors of few gradients, with sides up to 1024, one in
/// seven fails at 2^22 and none at 2^21.
constexpr double most_kappa_in_float32 = 0x1p20;

/// Directions R g of gradients g that the factor sums meet the least eigenvalues of R, and its
/// error is relative to the largest, kappa^exponent times those. Cosines with the exact direction,
/// of vectors of 64 and 256 with 10 to 30 gradients on CUDA at exponent 1/2: 0.63 to 0.95 at 2^20,
/// 0.995 and more at 2^15, 0.990 at 2^14, as damping changes the others. At 1/4, of matrices, 2^18
/// and 2^20 were alike.
constexpr double usual_kappa_in_float32 = 0x1p15;

double kappa_max_of(const Minimax& options, double exponent, Type arithmetic) {
  if (arithmetic == Type::float64) return options.kappa_max.value_or(1e7);
  const double usual = exponent > 0.25 ? usual_kappa_in_float32 : most_kappa_in_float32;
  return std::min(options.kappa_max.value_or(usual), most_kappa_in_float32);
}

/// Relative error of a root in exact arithmetic.
double tolerance_of(const Minimax& options, Type arithmetic) {
  if (arithmetic == Type::float64) return 1e-14;
  return options.precision == MinimaxPrecision::mixed ? 3e-4 : 1e-6;
}

}  // namespace

MinimaxPlan plan_minimax(double exponent, const Minimax& options, Type arithmetic) {
  const std::optional<Rational> root = minimax_root(exponent);
  if (!root)
    throw std::invalid_argument(
        "minimax solver: exponent must be q / p with integers q <= 4, "
        "p <= 64, and at most 1, got " +
        std::to_string(exponent));
  const double kappa_max = kappa_max_of(options, exponent, arithmetic);
  const double kappa = 2 * (kappa_max + 1);  // see Damping
  const bool mixes = arithmetic == Type::float32 && options.precision == MinimaxPrecision::mixed;
  return {
      .exponent = exponent,
      .root = *root,
      .kappa_max = kappa_max,
      .mixes = mixes,
      .mixes_root = mixes && std::pow(kappa, 1.0 / root->p) <= half_kappa_of_root,
      .steps = minimax_schedule(root->p, kappa, tolerance_of(options, arithmetic) / root->q, 4)};
}

void enqueue_minimax(SolverWorkspace& workspace, const MinimaxPlan& plan, double trace_exponent,
                     const std::int32_t* proceed) {
  Iteration iteration(workspace, plan);
  iteration.start(trace_exponent);
  const std::size_t count = plan.steps.size();
  for (std::size_t s = 0; s < count; ++s) {
    const MinimaxStep& step = plan.steps[s];
    iteration.choose_form(s);
    if (s + 1 == count) iteration.check(step, proceed);
    if (s > 0) iteration.step(step);
    if (s + 1 < count) iteration.advance(s == 0 ? x : n, step.magnitude);
  }
  iteration.finish();
}

}  // namespace shampoo::kernels
