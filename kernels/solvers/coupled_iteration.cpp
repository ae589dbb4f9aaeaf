// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/coupled_iteration.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace shampoo::kernels {

namespace {

// What the dense matrices of the workspace hold.
constexpr int a = 0;      // A, damped
constexpr int x = 1;      // X -> A^(-1/p)
constexpr int m = 2;      // M = X^p A -> I
constexpr int t = 3;      // the factor of this iteration, and its powers
constexpr int other = 4;  // where a product goes before it is exchanged
constexpr int found = 5;  // X of the matrices that are done
constexpr int rest = 6;   // I - M

/// The primitives, with one set of scalars for each row of the chunk.
class Iteration {
 public:
  Iteration(SolverWorkspace& workspace, int p) : w_(workspace), p_(p) {}

  /// Y <- scale X + shift I
  template <typename Scale, typename Shift>
  void combine(Scale scale, int from, Shift shift, int to) {
    for (const std::size_t row : w_.rows()) {
      w_.combine_scales[row] = scale(row);
      w_.combine_shifts[row] = shift(row);
    }
    w_.upload_scalars();
    w_.backend().combine(w_.combine_scales.data(), w_.matrix(from), w_.combine_shifts.data(),
                         w_.matrix(to), active());
  }
  void combine(double scale, int from, double shift, int to) {
    combine([=](std::size_t) { return scale; }, from, [=](std::size_t) { return shift; }, to);
  }

  /// C <- A B
  void multiply(int left, int right, int product) {
    w_.backend().multiply(w_.matrix(left), w_.matrix(right), w_.matrix(product), active());
  }

  /// Y <- T^power Y, T is lost.
  void multiply_by_power(int power, int y) {
    for (int bits = power; bits > 0; bits >>= 1) {
      if (bits & 1) {
        multiply(t, y, other);
        w_.exchange(y, other);
      }
      if (bits > 1) {
        multiply(t, t, other);
        w_.exchange(t, other);
      }
    }
  }

  /// X <- z^(1/p) I ; M <- z A
  template <typename Z>
  void start(Z z) {
    combine([](std::size_t) { return 0.0; }, a,
            [&](std::size_t i) { return std::pow(z(i), 1.0 / p_); }, x);
    combine(
        z, a, [](std::size_t) { return 0.0; }, m);
  }

  /// X <- X T ; M <- T^p M
  void advance() {
    multiply(x, t, other);
    w_.exchange(x, other);
    multiply_by_power(p_, m);
  }

  /// T <- (1 + 1/p) I - M/p, then advance()
  void newton_step() {
    combine(-1.0 / p_, m, 1 + 1.0 / p_, t);
    advance();
  }

  /// T <- sum over i < order of b_i (I - M)^i by Horner's rule, b_0 = 1,
  /// b_i = prod over j in 1..i of (1 + (j - 1) p) / (j p); then advance().
  void series_step(int order) {
    const auto ratio = [&](int j) { return (1.0 + (j - 1.0) * p_) / (1.0 * j * p_); };
    double b = 1;
    for (int j = 1; j < order; ++j) b *= ratio(j);
    combine(-1.0, m, 1.0, rest);
    combine(0.0, m, b, t);
    for (int j = order - 1; j > 0; --j) {
      b /= ratio(j);
      multiply(t, rest, other);
      combine(1.0, other, b, t);
    }
    advance();
  }

  std::span<const double> errors() {
    return w_.measure(m, Measure::distance_from_identity, active());
  }

  void activate_all() {
    std::ranges::fill(w_.active.host(), std::uint8_t{1});
    w_.upload_scalars();
  }

  /// Rows for which `done` holds become inactive; their X is kept in `found`.
  template <typename Done>
  void retire(Done done) {
    bool any = false;
    for (const std::size_t row : w_.rows()) {
      const bool now = w_.active[row] != 0 && done(row);
      w_.finished[row] = now;
      if (now) w_.active[row] = 0;
      any = any || now;
      w_.combine_scales[row] = 1;
      w_.combine_shifts[row] = 0;
    }
    if (!any) return;
    w_.upload_scalars();
    w_.backend().combine(w_.combine_scales.data(), w_.matrix(x), w_.combine_shifts.data(),
                         w_.matrix(found), w_.finished.data());
  }

  bool running() const {
    return std::ranges::any_of(w_.rows(), [&](std::size_t row) { return w_.active[row] != 0; });
  }

  /// Rows whose max |A X^p - I| is not at most `limit` fail.
  void check(double limit) {
    combine(1.0, found, 0.0, t);
    combine(1.0, a, 0.0, m);
    multiply_by_power(p_, m);
    const auto distances = errors();
    for (const std::size_t row : w_.rows())
      w_.flags[row] = distances[row] <= limit ? 0 : non_finite_root;
  }

  /// Rows whose X is no root of a positive definite A with eigenvalues >= least fail: its largest
  /// element is at most least^(-1/p), or twice that where rounding has made small eigenvalues
  /// smaller. I - M alone does not tell: X and M drift apart.
  template <typename Least>
  void check_size(Least least) {
    const auto sizes = w_.measure(found, Measure::definite_size, active());
    for (const std::size_t row : w_.rows())
      if (!std::isfinite(sizes[row]) || sizes[row] > 2 * std::pow(least(row), -1.0 / p_))
        w_.flags[row] = non_finite_root;
  }

  /// X <- X^q
  void raise(int q) {
    combine(1.0, found, 0.0, t);
    multiply_by_power(q - 1, found);
  }

 private:
  const std::uint8_t* active() const { return w_.active.data(); }

  SolverWorkspace& w_;
  int p_;
};

/// A <- scale * factor + shift I, and no failure so far.
template <typename Shift>
void load(SolverWorkspace& workspace, double trace_exponent, Shift shift) {
  for (const std::size_t row : workspace.rows()) {
    workspace.shifts[row] = shift(row);
    workspace.flags[row] = 0;
  }
  workspace.upload_scalars();
  workspace.unpack_factors(a, {.shifts = workspace.shifts.data(),
                               .floors = workspace.table().epsilons().data(),
                               .trace_exponent = trace_exponent});
}

}  // namespace

std::span<const std::int32_t> coupled_newton(SolverWorkspace& workspace, Rational root,
                                             const CoupledNewton& options, double trace_exponent) {
  load(workspace, trace_exponent, [&](std::size_t i) { return workspace.table().epsilons()[i]; });
  Iteration iteration(workspace, root.p);
  iteration.activate_all();

  // z = (p + 1) / (2 |A|_F)
  const auto norms = workspace.measure(a, Measure::frobenius);
  iteration.start([&](std::size_t i) { return (root.p + 1) / (2 * norms[i]); });
  for (int done = 0;; ++done) {
    const auto errors = iteration.errors();
    iteration.retire([&](std::size_t i) {
      return !(errors[i] > options.tolerance) || done == options.max_iterations;
    });
    if (!iteration.running()) break;
    iteration.newton_step();
  }
  iteration.activate_all();
  iteration.check_size([&](std::size_t i) { return workspace.table().epsilons()[i]; });
  workspace.upload_flags();
  return workspace.pack_roots_and_wait(found);
}

std::span<const std::int32_t> coupled_higher_order(SolverWorkspace& workspace, Rational root,
                                                   const CoupledHigherOrder& options,
                                                   double trace_exponent) {
  load(workspace, trace_exponent, [](std::size_t) { return 0.0; });
  Iteration iteration(workspace, root.p);
  iteration.activate_all();

  // A <- A + max(relative |A|_inf, absolute) I ; z = 1 / trace(A)
  const auto sums = workspace.measure(a, Measure::largest_row_sum);
  iteration.combine([](std::size_t) { return 1.0; }, a,
                    [&](std::size_t i) {
                      return std::max(sums[i] * options.relative_epsilon, options.absolute_epsilon);
                    },
                    a);
  const auto traces = workspace.measure(a, Measure::trace);
  iteration.start([&](std::size_t i) { return 1 / traces[i]; });
  iteration.newton_step();

  std::vector<double>& before = workspace.errors_before;
  auto errors = iteration.errors();
  std::ranges::copy(errors, before.begin());
  iteration.retire([&](std::size_t i) { return !(before[i] > options.tolerance); });
  for (int done = 1; iteration.running() && done < options.max_iterations; ++done) {
    iteration.series_step(options.order);
    errors = iteration.errors();
    iteration.retire([&](std::size_t i) {
      const bool stalled =
          errors[i] > 1.2 * before[i] || (errors[i] == before[i] && errors[i] < 1e-3);
      return stalled || !(errors[i] > options.tolerance);
    });
    std::ranges::copy(errors, before.begin());
  }
  iteration.retire([](std::size_t) { return true; });

  iteration.activate_all();
  iteration.check(0.1);
  iteration.check_size([&](std::size_t) { return options.absolute_epsilon; });
  iteration.raise(root.q);
  workspace.upload_flags();
  return workspace.pack_roots_and_wait(found);
}

}  // namespace shampoo::kernels
