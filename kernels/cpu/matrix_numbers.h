// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

/// Numbers of one square matrix, in double and in a fixed order. Elements that are not finite show.
namespace shampoo::kernels {

/// Keeps NaN, which std::max would drop.
inline double larger(double a, double b) { return a >= b ? a : b > a ? b : a + b; }

template <typename Real>
double frobenius(const Real* a, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n * n; ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  return std::sqrt(sum);
}

template <typename Real>
double off_diagonal(const Real* a, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      if (i != j) sum += static_cast<double>(a[i * n + j]) * static_cast<double>(a[i * n + j]);
  return std::sqrt(sum);
}

template <typename Real>
double largest_row_sum(const Real* a, std::int64_t n) {
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += std::abs(static_cast<double>(a[i * n + j]));
    largest = larger(largest, sum);
  }
  return largest;
}

template <typename Real>
double largest_element(const Real* a, std::int64_t n) {
  double largest = 0;
  for (std::int64_t i = 0; i < n * n; ++i)
    largest = larger(largest, std::abs(static_cast<double>(a[i])));
  return largest;
}

template <typename Real>
double definite_size(const Real* a, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (!(a[i * (n + 1)] > 0)) return std::numeric_limits<double>::infinity();
  return largest_element(a, n);
}

template <typename Real>
double trace(const Real* a, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i * (n + 1)]);
  return sum;
}

template <typename Real>
double distance_from_identity(const Real* a, std::int64_t n) {
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      largest = larger(largest, std::abs(static_cast<double>(a[i * n + j]) - (i == j ? 1.0 : 0.0)));
  return largest;
}

}  // namespace shampoo::kernels
