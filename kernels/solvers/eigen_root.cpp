// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/eigen_root.h"

namespace shampoo::kernels {

namespace {

// What the dense matrices of the workspace hold.
constexpr int a = 0, x = 1;

}  // namespace

Eigen eigen_of(const BasisMethod& method) {
  const auto* const eigh = std::get_if<Eigh>(&method);
  if (eigh == nullptr) return {};
  return {.perturb_before = eigh->perturb_before,
          .pseudo_inverse = eigh->pseudo_inverse,
          .relative_floor = eigh->relative_floor};
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

void load_damped(SolverWorkspace& w, int matrix, const EigenRoot& how) {
  const bool shifts = how.options.perturb_before && !how.options.pseudo_inverse;
  for (const std::size_t row : w.rows()) {
    w.epsilons[row] = how.epsilon.value_or(w.table().epsilons()[row]);
    w.shifts[row] = shifts ? w.epsilons[row] : 0.0;
  }
  const Loading loading{
      .shifts = w.shifts.data(), .floors = w.epsilons.data(), .trace_exponent = how.trace_exponent};
  w.upload_scalars();
  w.unpack_factors(matrix, loading);
  if (how.jitter == 0) return;

  const std::span<const double> traces = w.measure(matrix, Measure::trace);
  for (const std::size_t row : w.rows()) w.shifts[row] += how.jitter * traces[row];
  w.upload_scalars();
  w.unpack_factors(matrix, loading);
}

std::span<const std::int32_t> eigen_root(SolverWorkspace& workspace, const EigenRoot& how) {
  Backend& backend = workspace.backend();
  load_damped(workspace, a, how);
  // A = Q L Q^T
  backend.eigh(workspace.matrix(a), how.eigensolver,
               static_cast<std::int32_t*>(workspace.failed.data()));
  Spectrum spectrum = spectrum_of(how.options);
  spectrum.epsilons = workspace.epsilons.data();
  spectrum.exponents = workspace.table().exponents().data();
  spectrum.clamped = static_cast<double*>(workspace.clamped.data());
  backend.root_spectrum(workspace.matrix(a), spectrum);
  // X = Q L^-exponent Q^T
  backend.reconstruct(workspace.matrix(a), workspace.matrix(x));
  return workspace.pack_roots_and_wait(x);
}

}  // namespace shampoo::kernels
