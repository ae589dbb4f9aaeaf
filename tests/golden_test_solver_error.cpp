// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_test_solver_error.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "shampoo/slots.h"
#include "tests/support/near.h"

namespace shampoo::test {
namespace {

constexpr double unit = 0x1p-24;

/// 1 / bias correction of the factors.
double scale_of(const Group& group, std::int64_t steps) {
  const auto& preconditioner = std::get<RootInverse>(group.recipe().preconditioner);
  const double beta2 = group.rates.beta2;
  if (!group.recipe().bias_correction || preconditioner.drop_weighting || beta2 == 1) return 1;
  return 1 / (1 - std::pow(beta2, static_cast<double>(steps)));
}

template <typename Real>
void write_factor(const SlotView& factor, Real* pair) {
  const std::int64_t n = factor.extent[0];
  const float* elements = static_cast<const float*>(factor.data);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      pair[i * (n + 1) + j] =
          static_cast<Real>(elements[i * factor.strides[0] + j * factor.strides[1]]);
}

template <typename Real>
std::vector<double> read_root(std::int64_t n, const Real* pair) {
  std::vector<double> root;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j)
      root.push_back(static_cast<double>(pair[i * (n + 1) + j + 1]));
  return root;
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
  const auto& preconditioner = std::get<RootInverse>(group.recipe().preconditioner);
  const SlotView elements = optimizer.slot(parameter.name, block, first_moment_slot);
  const int order = static_cast<int>(elements.extent.size());
  double sum = 0;
  for (int k = 0; k < order; ++k) {
    if (!has_factor(group.recipe(), order, k)) continue;
    const SlotView factor = optimizer.slot(parameter.name, block, "factor/" + std::to_string(k));
    const kernels::RootJob job{.side = factor.extent[0],
                               .exponent = exponent_of(preconditioner, order, k),
                               .epsilon = group.rates.epsilon,
                               .scale = scale_of(group, steps)};
    const Distance d = distance(root(factor, Type::float32, preconditioner, job),
                                root(factor, Type::float64, preconditioner, job));
    sum += d.absolute / d.scale / unit;
  }
  return sum;
}

std::vector<double> SolverErrorMeter::root(const SlotView& factor, Type type,
                                           const RootInverse& preconditioner,
                                           kernels::RootJob job) {
  const std::int64_t n = job.side;
  const kernels::Buffer pair(backend_, static_cast<std::size_t>(n * (n + 1)) * size_of(type));
  job.pair = pair.data();
  kernels::InverseRoot solver(backend_, type, preconditioner.solver,
                              preconditioner.trace_scaling.value_or(0));
  backend_.reserve({}, type, n);
  solver.reserve({&n, 1});
  const bool wide = type == Type::float64;
  wide ? write_factor(factor, static_cast<double*>(job.pair))
       : write_factor(factor, static_cast<float*>(job.pair));
  solver.solve({&job, 1});
  if (job.outcome != kernels::Outcome::computed)
    throw std::runtime_error("a root of side " + std::to_string(n) + " could not be computed");
  return wide ? read_root(n, static_cast<const double*>(job.pair))
              : read_root(n, static_cast<const float*>(job.pair));
}

}  // namespace shampoo::test
