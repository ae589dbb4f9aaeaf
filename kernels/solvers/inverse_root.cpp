// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/inverse_root.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/solvers/coupled_iteration.h"
#include "kernels/solvers/minimax_root.h"

namespace shampoo::kernels {

namespace {

// What the dense matrices of the workspace hold.
constexpr int a = 0, x = 1;

/// Eigenvalues of a float32 decomposition carry an error of about machine epsilon times the largest
/// one; below this floor they are noise, whose negative powers would dominate the direction.
constexpr double automatic_floor = 1e-7;

bool is_iteration(const Solver& solver) { return !std::holds_alternative<Eigen>(solver); }

int matrices_for(const Solver& solver) {
  if (std::holds_alternative<Minimax>(solver)) return 4;
  return is_iteration(solver) ? SolverWorkspace::max_matrices : 2;
}

double machine_epsilon(Type type) {
  return type == Type::float64 ? std::numeric_limits<double>::epsilon()
                               : std::numeric_limits<float>::epsilon();
}

/// What damps like the solver.
Eigen eigen_of(const Solver& solver) {
  if (const auto* eigen = std::get_if<Eigen>(&solver)) return *eigen;
  if (const auto* higher = std::get_if<CoupledHigherOrder>(&solver))
    return {.relative_floor = std::max(higher->relative_epsilon, automatic_floor)};
  return {.relative_floor = automatic_floor};
}

Spectrum spectrum_of(const Eigen& eigen) {
  Spectrum spectrum{.relative_floor = eigen.relative_floor};
  if (eigen.pseudo_inverse) {
    spectrum.rule = Spectrum::Rule::cut;
    spectrum.cut_relative = eigen.pseudo_inverse->relative_tolerance.value_or(-1);
    spectrum.cut_absolute = eigen.pseudo_inverse->absolute_tolerance;
  } else if (!eigen.perturb_before) {
    spectrum.rule = Spectrum::Rule::shift_and_add;
  }
  return spectrum;
}

}  // namespace

std::optional<Rational> rational(double root) {
  for (int q = 1; q <= 64; ++q) {
    const double p = std::round(root * q);
    if (p < 1 || p > 1e6) continue;
    if (std::abs(p / q - root) <= std::numeric_limits<double>::epsilon() * root)
      return Rational{static_cast<int>(p), q};
  }
  return std::nullopt;
}

Solver resolved(const Solver& solver, const Backend& backend, Type arithmetic,
                std::span<const double> exponents) {
  if (!std::holds_alternative<Automatic>(solver)) return solver;
  const bool fits = std::all_of(exponents.begin(), exponents.end(),
                                [](double e) { return minimax_root(e).has_value(); });
  if (fits && arithmetic == Type::float32 && backend.prefers_products()) return Minimax{};
  return Eigen{.relative_floor = automatic_floor};
}

InverseRoot::InverseRoot(Backend& backend, Type arithmetic, const Solver& solver,
                         double trace_exponent)
    : arithmetic_(arithmetic),
      solver_(resolved(solver, backend, arithmetic, {})),
      trace_exponent_(trace_exponent),
      eigen_(eigen_of(solver_)),
      workspace_(backend, arithmetic, matrices_for(solver_)) {
  if (const auto* higher = std::get_if<CoupledHigherOrder>(&solver_))
    epsilon_ = higher->absolute_epsilon;
  add_attempts();
}

InverseRoot::~InverseRoot() = default;

bool InverseRoot::waits() const { return !std::holds_alternative<Minimax>(solver_); }

SolverCalls InverseRoot::calls(std::int64_t largest_side) const {
  return {.largest_side = largest_side, .decompositions = waits(), .symmetric_products = !waits()};
}

void InverseRoot::add_attempts() {
  using enum Outcome;
  constexpr Eigensolver usual = Eigensolver::divide_and_conquer;
  attempts_.push_back(
      {is_iteration(solver_) ? by_eigenvalues : computed, arithmetic_, usual, false});
  attempts_.push_back({jittered, arithmetic_, usual, true});
  if (arithmetic_ == Type::float32) attempts_.push_back({in_float64, Type::float64, usual, false});
  attempts_.push_back({by_jacobi, Type::float64, Eigensolver::jacobi, false});
}

void InverseRoot::reserve(std::span<const std::int64_t> sides, std::span<const double> exponents) {
  workspace_.reserve(sides);
  pending_.reserve(sides.size());
  later_.reserve(sides.size());
  raised_.resize(sides.size());
  if (!waits())
    for (const double exponent : exponents) plan_for(exponent);
}

void InverseRoot::solve(std::span<RootJob> jobs, const std::int32_t* proceed) {
  for (RootJob& job : jobs) {
    job.outcome = Outcome::failed;
    job.raised = 0;
  }
  pending_.resize(jobs.size());
  std::iota(pending_.begin(), pending_.end(), 0);
  // Costliest first; an iteration needs one root per chunk.
  const bool by_exponent = is_iteration(solver_);
  std::sort(pending_.begin(), pending_.end(), [&](int i, int j) {
    if (by_exponent && jobs[i].exponent != jobs[j].exponent)
      return jobs[i].exponent < jobs[j].exponent;
    if (jobs[i].side != jobs[j].side) return jobs[i].side > jobs[j].side;
    return i < j;
  });

  if (!waits()) return queue(jobs, proceed);
  if (by_exponent) iterate(jobs);
  for (const Attempt& how : attempts_) {
    if (pending_.empty()) return;
    decompose(how, jobs);
  }
}

void InverseRoot::decompose(const Attempt& how, std::span<RootJob> jobs) {
  Backend& backend = workspace_.backend();
  later_.clear();
  std::span<const int> rest = pending_;
  while (!rest.empty()) {
    const std::size_t count = workspace_.take(rest, jobs, how.type);
    rest = rest.subspan(count);

    load_for(how, count);
    // A = Q L Q^T ; X = Q L^-exponent Q^T
    backend.eigh(workspace_.matrix(a), how.eigensolver,
                 static_cast<std::int32_t*>(workspace_.failed.data()));
    Spectrum spectrum = spectrum_of(eigen_);
    spectrum.epsilons = workspace_.epsilons.data();
    spectrum.exponents = workspace_.exponents.data();
    spectrum.raised = static_cast<double*>(workspace_.raised.data());
    backend.root_spectrum(workspace_.matrix(a), spectrum);
    backend.assemble(workspace_.matrix(a), workspace_.matrix(x));
    backend.download(raised_.data(), spectrum.raised, count * sizeof(double));
    record(workspace_.store(x), how.outcome, jobs);
  }
  pending_.swap(later_);
}

void InverseRoot::load_for(const Attempt& how, std::size_t count) {
  if (epsilon_) {
    std::fill_n(workspace_.epsilons.host.begin(), count, *epsilon_);
    workspace_.epsilons.upload(workspace_.backend());
  }
  // A = scale * factor + epsilon I
  const bool shifts = eigen_.perturb_before && !eigen_.pseudo_inverse;
  for (std::size_t i = 0; i < count; ++i)
    workspace_.shifts.host[i] = shifts ? workspace_.epsilons.host[i] : 0.0;
  workspace_.load(a, trace_exponent_);
  if (!how.jittered) return;

  // A <- A + machine epsilon trace(A) I
  const std::span<const double> traces = workspace_.measure(a, Measure::trace);
  for (std::size_t i = 0; i < count; ++i)
    workspace_.shifts.host[i] += machine_epsilon(how.type) * traces[i];
  workspace_.load(a, trace_exponent_);
}

void InverseRoot::iterate(std::span<RootJob> jobs) {
  later_.clear();
  std::fill(raised_.begin(), raised_.end(), 0.0);
  std::span<const int> rest = pending_;
  while (!rest.empty()) {
    const double exponent = jobs[rest.front()].exponent;
    rest = rest.subspan(workspace_.take(rest.first(alike(rest, jobs)), jobs, arithmetic_));

    const Rational root = rational(1 / exponent).value();
    if (const auto* newton = std::get_if<CoupledNewton>(&solver_))
      record(coupled_newton(workspace_, root, *newton, trace_exponent_), Outcome::computed, jobs);
    else
      record(coupled_higher_order(workspace_, root, std::get<CoupledHigherOrder>(solver_),
                                  trace_exponent_),
             Outcome::computed, jobs);
  }
  pending_.swap(later_);
}

std::size_t InverseRoot::alike(std::span<const int> order, std::span<const RootJob> jobs) const {
  const auto other = std::find_if(order.begin(), order.end(), [&](int job) {
    return jobs[job].exponent != jobs[order.front()].exponent;
  });
  return static_cast<std::size_t>(other - order.begin());
}

const MinimaxPlan& InverseRoot::plan_for(double exponent) {
  for (const MinimaxPlan& plan : plans_)
    if (plan.exponent == exponent) return plan;
  return plans_.emplace_back(plan_minimax(exponent, std::get<Minimax>(solver_), arithmetic_));
}

void InverseRoot::queue(std::span<RootJob> jobs, const std::int32_t* proceed) {
  workspace_.place(pending_, jobs);
  std::span<const int> rest = pending_;
  while (!rest.empty()) {
    const MinimaxPlan& plan = plan_for(jobs[rest.front()].exponent);
    const std::size_t first = pending_.size() - rest.size();
    rest = rest.subspan(
        workspace_.take_placed(rest.first(alike(rest, jobs)), jobs, arithmetic_, first));
    queue_minimax(workspace_, plan, trace_exponent_, proceed);
  }
  const std::size_t count = pending_.size();
  Backend& backend = workspace_.backend();
  backend.download(workspace_.flags.data(), workspace_.failed.data(), count * sizeof(std::int32_t));
  backend.download(raised_.data(), workspace_.raised.data(), count * sizeof(double));
}

void InverseRoot::collect(std::span<RootJob> jobs) const {
  if (waits()) return;
  for (std::size_t row = 0; row < pending_.size(); ++row) {
    RootJob& job = jobs[pending_[row]];
    const bool computed = workspace_.flags[row] == 0;
    job.outcome = computed ? Outcome::computed : Outcome::failed;
    job.raised = computed ? static_cast<std::int64_t>(raised_[row]) : 0;
  }
}

void InverseRoot::reserve_slots(Columns& columns, std::span<const RootJob> all) {
  slots_.reserve(columns, all);
  slot_flags_ = HostBuffer(workspace_.backend(), all.size() * sizeof(std::int32_t));
  slot_raised_ = HostBuffer(workspace_.backend(), all.size() * sizeof(double));
}

void InverseRoot::place(std::span<const RootJob> jobs) { slots_.place(jobs); }

void InverseRoot::queue_placed(bool fixed, const std::int32_t* proceed) {
  SolverWorkspace::SlotCursor cursor;
  while (const std::optional<double> exponent = workspace_.take_slots(slots_, fixed, cursor))
    queue_minimax(workspace_, plan_for(*exponent), trace_exponent_, proceed);
  if (slots_.size() == 0) return;
  Backend& backend = workspace_.backend();
  backend.download(slot_flags_.data(), workspace_.failed.data(),
                   slots_.size() * sizeof(std::int32_t));
  backend.download(slot_raised_.data(), workspace_.raised.data(), slots_.size() * sizeof(double));
}

void InverseRoot::collect_placed(std::span<RootJob> jobs) const {
  const auto* const flags = static_cast<const std::int32_t*>(slot_flags_.data());
  const auto* const raised = static_cast<const double*>(slot_raised_.data());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const std::size_t row = slots_.row(j);
    const bool computed = flags[row] == 0;
    jobs[j].outcome = computed ? Outcome::computed : Outcome::failed;
    jobs[j].raised = computed ? static_cast<std::int64_t>(raised[row]) : 0;
  }
}

void InverseRoot::record(std::span<const std::int32_t> flags, Outcome outcome,
                         std::span<RootJob> jobs) {
  const std::span<const int> taken = workspace_.jobs();
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (flags[i] != 0) {
      later_.push_back(taken[i]);
      continue;
    }
    jobs[taken[i]].outcome = outcome;
    jobs[taken[i]].raised = static_cast<std::int64_t>(raised_[i]);
  }
}

}  // namespace shampoo::kernels
