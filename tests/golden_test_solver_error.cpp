// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_test_solver_error.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "shampoo/preconditioners/root_inverse.h"
#include "shampoo/update/slots.h"
#include "tests/support/root_solver.h"

namespace shampoo::test {
namespace {

constexpr double unit = 0x1p-24;

/// 1 / bias correction of the factors.
double scale_of(const Group& group, const RootInverse& kind, std::int64_t steps) {
  const double beta2 = group.rates.beta2;
  if (!group.recipe().bias_correction || kind.drop_weighting || beta2 == 1) return 1;
  return 1 / (1 - std::pow(beta2, static_cast<double>(steps)));
}

using Matrix = std::vector<double>;

Matrix full(kernels::Backend& backend, const SlotView& factor) {
  const std::int64_t n = factor.extent[0];
  if (n == 0) return {};
  const std::int64_t count = (n - 1) * (factor.strides[0] + factor.strides[1]) + 1;
  std::vector<float> elements(static_cast<std::size_t>(count));
  backend.download(elements.data(), factor.data, elements.size() * sizeof(float));
  backend.synchronize();
  Matrix matrix(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      matrix[i * n + j] = matrix[j * n + i] =
          static_cast<double>(elements[i * factor.strides[0] + j * factor.strides[1]]);
  return matrix;
}

template <typename Real>
void write_factor(const Matrix& factor, std::int64_t n, Real* pair) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      pair[i * (n + 1) + j] = static_cast<Real>(factor[i * n + j]);
}

template <typename Real>
Matrix read_root(std::int64_t n, const Real* pair) {
  Matrix root(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j)
      root[i * n + j] = root[j * n + i] = static_cast<double>(pair[i * (n + 1) + j + 1]);
  return root;
}

/// sqrt(trace(X L X)): the size of X G, for gradients with the statistics L = sum of G G^T.
double felt_by_gradients(const Matrix& x, const Matrix& factor, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t k = 0; k < n; ++k) sum += x[i * n + j] * factor[j * n + k] * x[k * n + i];
  return std::sqrt(std::max(sum, 0.0));
}

}  // namespace

double SolverErrorMeter::measure(Optimizer& optimizer) {
  const std::int64_t refreshes = optimizer.statistics().refreshes;
  if (refreshes == refreshes_) return 0;
  refreshes_ = refreshes;
  double worst = 0;
  for (int g = 0; g < optimizer.group_count(); ++g) {
    const Group& group = optimizer.group(g);
    for (const Parameter& parameter : group.parameters())
      for (int block = 0; block < optimizer.block_count(parameter.name); ++block)
        worst = std::max(worst, block_error(optimizer, group, parameter, block));
  }
  return worst;
}

double SolverErrorMeter::block_error(Optimizer& optimizer, const Group& group,
                                     const Parameter& parameter, int block) {
  const std::int64_t steps = optimizer.steps(parameter.name);
  if (steps == 0) return 0;
  const auto* const kind = std::get_if<RootInverse>(&group.recipe().preconditioner);
  if (!kind || !group.recipe().refresh.first) return 0;
  const SlotView elements = optimizer.slot(parameter.name, block, first_moment_slot);
  const int order = static_cast<int>(elements.extent.size());
  double sum = 0;
  for (int k = 0; k < order; ++k) {
    if (exponent_of(*kind, order, k) == 0) continue;
    const SlotView view = optimizer.slot(parameter.name, block, "factor/" + std::to_string(k));
    const std::int64_t n = view.extent[0];
    const kernels::RootJob job{.side = n,
                               .exponent = exponent_of(*kind, order, k),
                               .epsilon = group.rates.epsilon,
                               .scale = scale_of(group, *kind, steps)};
    const Matrix factor = full(backend_, view);
    Matrix error = root(factor, Type::float32, *kind, job);
    const Matrix exact = root(factor, Type::float64, *kind, job);
    for (std::size_t i = 0; i < error.size(); ++i) error[i] -= exact[i];
    const double size = felt_by_gradients(exact, factor, n);
    if (size > 0) sum += felt_by_gradients(error, factor, n) / size / unit;
  }
  return sum;
}

std::vector<double> SolverErrorMeter::root(const std::vector<double>& factor, Type type,
                                           const RootInverse& preconditioner,
                                           kernels::RootJob job) {
  const std::int64_t n = job.side;
  const kernels::Buffer pair(backend_, static_cast<std::size_t>(n * (n + 1)) * size_of(type));
  job.pair = pair.data();
  RootSolver solver(backend_, type, preconditioner.solver, preconditioner.trace_scaling.value_or(0),
                    {&job, 1});
  const bool wide = type == Type::float64;
  std::vector<std::byte> host(pair.bytes());
  wide ? write_factor(factor, n, reinterpret_cast<double*>(host.data()))
       : write_factor(factor, n, reinterpret_cast<float*>(host.data()));
  backend_.upload(pair.data(), host.data(), host.size());
  solver.solve({&job, 1});
  if (job.outcome == kernels::Outcome::failed)
    throw std::runtime_error("a root of side " + std::to_string(n) + " could not be computed");
  backend_.download(host.data(), pair.data(), host.size());
  backend_.synchronize();
  return wide ? read_root(n, reinterpret_cast<const double*>(host.data()))
              : read_root(n, reinterpret_cast<const float*>(host.data()));
}

}  // namespace shampoo::test
