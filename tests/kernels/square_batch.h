// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/facets.h"
#include "tests/kernels/numbers.h"

namespace shampoo::test {

/// Dense matrices and pair arrays of some sides, in groups of one side, with a row in every column.
template <typename Real>
class SquareBatch {
 public:
  /// One matrix per side; equal sides that follow each other form a group.
  explicit SquareBatch(const std::vector<std::int64_t>& sides) : sides_(sides) {
    std::int64_t elements = 0, all_values = 0, pair_elements = 0;
    std::vector<std::int64_t> first;
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::int64_t n = sides[i];
      // Groups start at multiples of 64 elements from the first one.
      if (i > 0 && n != sides[i - 1]) elements = (elements + 63) / 64 * 64;
      first.push_back(elements);
      elements += n * n;
      all_values += n;
      pair_elements += n * (n + 1);
    }
    matrices_.resize(static_cast<std::size_t>(elements));
    values_.resize(static_cast<std::size_t>(all_values));
    pairs_.resize(static_cast<std::size_t>(pair_elements));

    Real* value = values_.data();
    Real* pair = pairs_.data();
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::int64_t n = sides[i];
      first_matrix_.push_back(matrices_.data() + first[i]);
      first_value_.push_back(value);
      arrays_.push_back(pair);
      value += n;
      pair += n * (n + 1);
    }
    make_groups();
  }
  SquareBatch(const SquareBatch&) = delete;

  std::span<const kernels::SquareMatrixBatch> squares() const { return squares_; }
  std::span<const kernels::FactorBatch> pairs() const { return pair_groups_; }

  std::size_t size() const { return sides_.size(); }
  const std::vector<std::int64_t>& sides() const { return sides_; }
  std::int64_t side(std::size_t i) const { return sides_[i]; }
  std::span<Real> matrix(std::size_t i) {
    return {first_matrix_[i], static_cast<std::size_t>(sides_[i] * sides_[i])};
  }
  std::span<Real> values(std::size_t i) {
    return {first_value_[i], static_cast<std::size_t>(sides_[i])};
  }
  std::span<Real> pair(std::size_t i) {
    return {static_cast<Real*>(arrays_[i]), static_cast<std::size_t>(sides_[i] * (sides_[i] + 1))};
  }
  Real& at(std::size_t i, std::int64_t row, std::int64_t column) {
    return first_matrix_[i][row * sides_[i] + column];
  }

 private:
  void make_groups() {
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      if (i == 0 || sides_[i] != sides_[i - 1]) {
        const auto row = static_cast<std::int64_t>(i);
        squares_.push_back({type_of<Real>, sides_[i], 0, row, first_matrix_[i], first_value_[i]});
        pair_groups_.push_back({type_of<Real>, sides_[i], 0, row, arrays_.data() + i});
      }
      ++squares_.back().count;
      ++pair_groups_.back().count;
    }
  }

  std::vector<std::int64_t> sides_;
  std::vector<Real> matrices_, values_, pairs_;
  std::vector<Real*> first_matrix_, first_value_;
  std::vector<void*> arrays_;
  std::vector<kernels::SquareMatrixBatch> squares_;
  std::vector<kernels::FactorBatch> pair_groups_;
};

/// G G^T / columns of a random G: symmetric, positive semidefinite.
template <typename Real>
void fill_wishart(std::int64_t n, std::int64_t columns, std::uint64_t seed, std::span<Real> a) {
  Numbers numbers(seed);
  const std::vector<double> g = numbers.some<double>(n * columns);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < columns; ++k)
        sum += g[static_cast<std::size_t>(i * columns + k)] *
               g[static_cast<std::size_t>(j * columns + k)];
      a[static_cast<std::size_t>(i * n + j)] = a[static_cast<std::size_t>(j * n + i)] =
          static_cast<Real>(sum / static_cast<double>(columns));
    }
}

}  // namespace shampoo::test
