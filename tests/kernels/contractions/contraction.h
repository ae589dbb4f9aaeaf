// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/table.h"

/// Products with the matrices of dimensions, by their definition in double precision. A sum of k
/// products carries an error of at most k epsilon sum |t|, and as much of what it is made of; the
/// sums of |t| are computed along with the sums.
namespace shampoo::test {

using Extent = std::vector<std::int64_t>;

/// A number, the sum of the sizes of its terms, and that sum of terms whose factors are as large as
/// rounding can make them.
struct Term {
  double value = 0, size = 0, rounded_size = 0;
};

/// What rounding changes at most: |x| part + least.
struct OperandError {
  double part = 0, least = 0;

  double largest(double size) const { return size * (1 + part) + least; }
};

/// x contracted along dimension k with the matrix of elements element(i, j).
template <typename Element>
std::vector<Term> contracted(const std::vector<Term>& x, const Extent& extent, std::size_t k,
                             const Element& element, const OperandError& rounding = {}) {
  std::int64_t after = 1;
  for (std::size_t i = k + 1; i < extent.size(); ++i) after *= extent[i];
  std::vector<Term> y(x.size());
  for (std::int64_t e = 0; e < static_cast<std::int64_t>(x.size()); ++e) {
    const std::int64_t i = e / after % extent[k];
    for (std::int64_t j = 0; j < extent[k]; ++j) {
      const double m = element(i, j);
      const Term& from = x[static_cast<std::size_t>(e + (j - i) * after)];
      y[static_cast<std::size_t>(e)].value += m * from.value;
      y[static_cast<std::size_t>(e)].size += std::abs(m) * from.size;
      y[static_cast<std::size_t>(e)].rounded_size +=
          rounding.largest(std::abs(m)) * from.rounded_size;
    }
  }
  return y;
}

/// Blocks with two long sides and others, of orders 0 to 4.
inline std::vector<TensorCase> contraction_cases() {
  const std::vector<Extent> shapes = {
      {},         {7},         {131},       {9, 1},     {5, 3},       {63, 65},
      {65, 64},   {130, 17},   {65, 66},    {70, 80},   {80, 70},     {72, 66},
      {2, 70, 3}, {66, 2, 67}, {65, 70, 3}, {2, 3, 70}, {2, 3, 4, 5}, {9, 8, 1, 70}};
  std::vector<TensorCase> all;
  for (const Extent& shape : shapes)
    for (const auto mode :
         {kernels::Mode::preconditioned, kernels::Mode::absent, kernels::Mode::unpreconditioned})
      all.push_back({.shape = shape, .mode = mode, .seed = all.size() + 1});
  return all;
}

/// Dimensions without a matrix: of two matrices the first or the last, of others one between.
inline void leave_some_alone(const Extent& extent, std::vector<void*>& matrices) {
  if (extent == Extent{80, 70}) matrices[0] = nullptr;
  if (extent == Extent{72, 66} || extent == Extent{65, 70, 3}) matrices[1] = nullptr;
}

inline std::vector<Term> direction_of(const Table& t, std::size_t b) {
  std::vector<Term> x;
  for (std::int64_t e = 0; e < t.blocks[b].elements; ++e) {
    const double from = t.slot(t.direction, t.blocks[b].flat + e);
    x.push_back({from, std::abs(from), std::abs(from)});
  }
  return x;
}

}  // namespace shampoo::test
