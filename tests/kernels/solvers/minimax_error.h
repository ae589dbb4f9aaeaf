// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/spectra.h"
#include "tests/support/cpu_kernels.h"

/// Errors of Minimax against roots by an eigendecomposition in float64.
namespace shampoo::test {

/// What the solver adds to the diagonal: max(epsilon, largest / kappa_max) by its own bound.
inline double shift_of(const Matrix& a, double kappa_max, double epsilon) {
  const std::int64_t n = side_of(a);
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double square = 0;
      for (std::int64_t k = 0; k < n; ++k) square += a[i * n + k] * a[j * n + k];
      squares += square * square;
    }
  const double largest = (1 + 0x1p-10) * std::pow(squares, 0.25);
  return std::max(epsilon, largest / kappa_max);
}

/// (A + shift I)^-exponent by an eigendecomposition in float64.
inline Matrix exact_root(const Matrix& a, double shift, double exponent) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  const std::int64_t n = side_of(a);
  Matrix q = a, root(a.size());
  std::vector<double> values(static_cast<std::size_t>(n));
  const kernels::SquareMatrixBatch group{Type::float64, n, 1, 0, q.data(), values.data()};
  const kernels::SquareMatrixBatch result{Type::float64, n, 1, 0, root.data(), nullptr};
  std::int32_t failed = 0;
  backend->reserve({}, Type::float64, {n});
  backend->eigh({&group, 1}, kernels::Eigensolver::divide_and_conquer, &failed);
  EXPECT_EQ(failed, 0);
  for (double& value : values) value = std::pow(value + shift, -exponent);
  backend->reconstruct({&group, 1}, {&result, 1});
  return root;
}

/// A v
inline std::vector<double> product(const Matrix& a, const std::vector<double>& v) {
  std::vector<double> result;
  for (std::size_t i = 0; i < v.size(); ++i)
    result.push_back(std::inner_product(v.begin(), v.end(), a.begin() + i * v.size(), 0.0));
  return result;
}

/// |X - Y|_F / |Y|_F
inline double distance(const Matrix& x, const Matrix& y) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += std::pow(x[i] - y[i], 2);
    size += std::pow(y[i], 2);
  }
  return std::sqrt(difference / size);
}

inline Matrix in_float32(Matrix a) {
  for (double& x : a) x = static_cast<double>(static_cast<float>(x));
  return a;
}

template <typename Real>
double error(kernels::Backend& backend, const Matrix& a, const Minimax& solver, double exponent) {
  const double epsilon = 1e-30;
  const Root root =
      roots_of<Real>(backend, {a}, solver, {.exponent = exponent, .epsilon = epsilon}).front();
  EXPECT_EQ(root.outcome, kernels::Outcome::computed);
  return distance(root.matrix,
                  exact_root(a, shift_of(a, solver.kappa_max.value(), epsilon), exponent));
}

}  // namespace shampoo::test
