// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/kernels/numbers.h"

namespace shampoo::test {

/// Row-major rows x columns, in double.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> numbers = std::vector<double>(static_cast<std::size_t>(rows * columns));

  double& operator()(std::int64_t i, std::int64_t j) {
    return numbers[static_cast<std::size_t>(i * columns + j)];
  }
  double operator()(std::int64_t i, std::int64_t j) const {
    return numbers[static_cast<std::size_t>(i * columns + j)];
  }
};

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns};
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t p = 0; p < a.columns; ++p)
      for (std::int64_t j = 0; j < b.columns; ++j) c(i, j) += a(i, p) * b(p, j);
  return c;
}

inline Matrix transposed(const Matrix& a) {
  Matrix t{a.columns, a.rows};
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}

inline double norm(const Matrix& a) {
  return std::sqrt(std::inner_product(a.numbers.begin(), a.numbers.end(), a.numbers.begin(), 0.0));
}

/// n x count orthonormal columns: products of reflections.
inline Matrix orthonormal(std::int64_t n, std::int64_t count, std::uint64_t seed) {
  Numbers numbers(seed);
  Matrix q{n, count};
  for (std::int64_t j = 0; j < count; ++j) q(j, j) = 1;
  for (int reflection = 0; reflection < 3; ++reflection) {
    const std::vector<double> v = numbers.some<double>(n);
    const double size = std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
    for (std::int64_t j = 0; j < count; ++j) {
      double dot = 0;
      for (std::int64_t i = 0; i < n; ++i) dot += v[static_cast<std::size_t>(i)] * q(i, j);
      for (std::int64_t i = 0; i < n; ++i)
        q(i, j) -= 2 * dot / size * v[static_cast<std::size_t>(i)];
    }
  }
  return q;
}

/// U diag(values) V^T
struct Known {
  Matrix u, v;
  std::vector<double> values;

  Known(const std::vector<std::int64_t>& shape, std::vector<double> singular_values,
        std::uint64_t seed)
      : u(orthonormal(shape[0], std::min(shape[0], shape[1]), seed)),
        v(orthonormal(shape[1], std::min(shape[0], shape[1]), seed + 100)),
        values(std::move(singular_values)) {}

  Matrix with(const std::vector<double>& others) const {
    Matrix scaled = u;
    for (std::int64_t i = 0; i < u.rows; ++i)
      for (std::int64_t j = 0; j < u.columns; ++j)
        scaled(i, j) *= others[static_cast<std::size_t>(j)];
    return product(scaled, transposed(v));
  }
  Matrix matrix() const { return with(values); }
};

/// From 1 down to `least`, evenly in their logarithms.
inline std::vector<double> spread(std::int64_t count, double least) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(
        count == 1 ? 1 : std::pow(least, static_cast<double>(i) / static_cast<double>(count - 1)));
  return values;
}

}  // namespace shampoo::test
