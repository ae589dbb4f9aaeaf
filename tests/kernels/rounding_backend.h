// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tests/kernels/numbers.h"
#include "tests/support/counting_backend.h"

namespace shampoo::test {

/// A backend whose symmetric matrices of float32 round as forms of 16 bits do: `half` takes one
/// term, `split` two, x = hi + lo / 2^11, and products leave out that of both lows; for halves of
/// halves with one addend at most there is no mean, and the identity is added to what was rounded.
/// Elements lie in memory as the numbers that the terms make.
class RoundingBackend : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  using Batches = std::span<const kernels::SquareMatrixBatch>;

  void convert(Batches a, Batches c, kernels::Form form) override {
    CountingBackend::convert(a, c, form);
    for (const kernels::SquareMatrixBatch& group : c) round(group, form);
  }

  void unpack_factors(std::span<const kernels::FactorBatch> factors,
                      const kernels::Loading& loading, Batches a) override {
    CountingBackend::unpack_factors(factors, loading, a);
    for (const kernels::SquareMatrixBatch& group : a) round(group, loading.form);
  }

  void damp(Batches a, Batches squared, const kernels::Damping& damping, Batches m, Batches n,
            kernels::Form form) override {
    CountingBackend::damp(a, squared, damping, m, n, form);
    for (const Batches& batches : {m, n})
      for (const kernels::SquareMatrixBatch& group : batches) round(group, form);
  }

  void multiply_symmetric(Batches a, Batches b, kernels::Form operands,
                          const kernels::Weights& weights, Batches d, Batches c,
                          kernels::Form form) override {
    for (std::size_t g = 0; g < a.size(); ++g) {
      for (std::int64_t member = 0; member < a[g].count; ++member) {
        const auto one = [member](const kernels::SquareMatrixBatch& group) {
          kernels::SquareMatrixBatch single = group;
          single.count = 1;
          single.data = static_cast<float*>(group.data) + member * group.side * group.side;
          return single;
        };
        multiply_one(one(a[g]), one(b[g]), operands, weights, one(d[g]), one(c[g]));
      }
      round(c[g], form);
    }
    ++(operands == kernels::Form::half ? half_products : split_products);
  }

  int split_products = 0, half_products = 0;  ///< calls with operands of either form

 private:
  using Numbers = std::vector<float>;

  static void round(const kernels::SquareMatrixBatch& group, kernels::Form form) {
    if (form == kernels::Form::dense) return;
    const auto count = static_cast<std::size_t>(group.count * group.side * group.side);
    Numbers high(count), low(count);
    split(group, high, low);
    for (std::size_t i = 0; i < count; ++i)
      static_cast<float*>(group.data)[i] =
          form == kernels::Form::half ? high[i] : high[i] + 0x1p-11F * low[i];
  }

  void multiply_one(const kernels::SquareMatrixBatch& a, const kernels::SquareMatrixBatch& b,
                    kernels::Form operands, const kernels::Weights& weights,
                    const kernels::SquareMatrixBatch& d, const kernels::SquareMatrixBatch& c) {
    const std::int64_t n = a.side;
    const auto count = static_cast<std::size_t>(n * n);
    Numbers high_a(count), low_a(count), high_b(count), low_b(count), sum(count), term(count);
    split(a, high_a, low_a);
    split(b, high_b, low_b);
    // The second operand is read as its transpose.
    for (Numbers* part : {&high_b, &low_b}) transpose(*part, static_cast<std::size_t>(n));
    const auto times = [&](Numbers& left, Numbers& right, Numbers& product) {
      const kernels::SquareMatrixBatch l{Type::float32, n, 1, 0, left.data()};
      const kernels::SquareMatrixBatch r{Type::float32, n, 1, 0, right.data()};
      const kernels::SquareMatrixBatch p{Type::float32, n, 1, 0, product.data()};
      multiply({&l, 1}, {&r, 1}, {&p, 1}, nullptr);
    };
    times(high_a, high_b, sum);
    if (operands == kernels::Form::split) {
      times(high_a, low_b, term);
      for (std::size_t i = 0; i < count; ++i) sum[i] += 0x1p-11F * term[i];
      times(low_a, high_b, term);
      for (std::size_t i = 0; i < count; ++i) sum[i] += 0x1p-11F * term[i];
    }
    const Numbers of_a = as_read(a, operands), of_d = as_read(d, operands);
    float* const to = static_cast<float*>(c.data);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
      for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
        const std::size_t at = i * static_cast<std::size_t>(n) + j;
        const std::size_t lower = i < j ? j * static_cast<std::size_t>(n) + i : at;
        to[at] = static_cast<float>(weights.product) * sum[lower] +
                 static_cast<float>(weights.first) * of_a[at] +
                 static_cast<float>(weights.addend) * of_d[at] +
                 (i == j ? static_cast<float>(weights.identity) : 0.0F);
      }
  }

  static void transpose(Numbers& numbers, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) std::swap(numbers[i * n + j], numbers[j * n + i]);
  }

  static Numbers as_read(const kernels::SquareMatrixBatch& a, kernels::Form form) {
    const auto count = static_cast<std::size_t>(a.side * a.side);
    Numbers high(count), low(count);
    split(a, high, low);
    if (form == kernels::Form::split)
      std::copy_n(static_cast<const float*>(a.data), count, high.begin());
    return high;
  }

  /// Of as many numbers as both have.
  static void split(const kernels::SquareMatrixBatch& a, Numbers& high, Numbers& low) {
    const float* const from = static_cast<const float*>(a.data);
    for (std::size_t i = 0; i < high.size(); ++i) {
      high[i] = static_cast<float>(rounded(from[i], Type::float16));
      low[i] = static_cast<float>(rounded((from[i] - high[i]) * 2048.0, Type::float16));
    }
  }
};

}  // namespace shampoo::test
