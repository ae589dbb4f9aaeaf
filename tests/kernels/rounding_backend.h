// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/kernels/numbers.h"
#include "tests/support/counting_backend.h"

namespace shampoo::test {

/// A backend whose products of symmetric matrices in float32 round as products of float16 operands
/// do: `half` takes one term, `accurate` two, x = hi + lo / 2^11, without the product of both lows.
class RoundingBackend : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;

  void multiply_symmetric(std::span<const kernels::SquareMatrixBatch> a,
                          std::span<const kernels::SquareMatrixBatch> b,
                          const kernels::Weights& weights, kernels::Precision precision,
                          std::span<const kernels::SquareMatrixBatch> c) override {
    for (std::size_t g = 0; g < a.size(); ++g)
      for (std::int64_t member = 0; member < a[g].count; ++member) {
        const auto one = [member](const kernels::SquareMatrixBatch& group) {
          kernels::SquareMatrixBatch single = group;
          single.count = 1;
          single.data = static_cast<float*>(group.data) + member * group.side * group.side;
          return single;
        };
        multiply_one(one(a[g]), one(b[g]), weights, precision, one(c[g]));
      }
    ++products[static_cast<std::size_t>(precision)];
  }

  int products[2] = {};  ///< calls in either precision

 private:
  using Numbers = std::vector<float>;

  void multiply_one(const kernels::SquareMatrixBatch& a, const kernels::SquareMatrixBatch& b,
                    const kernels::Weights& weights, kernels::Precision precision,
                    const kernels::SquareMatrixBatch& c) {
    const std::int64_t n = a.side;
    const auto count = static_cast<std::size_t>(n * n);
    Numbers high_a(count), low_a(count), high_b(count), low_b(count), sum(count), term(count);
    split(a, high_a, low_a);
    split(b, high_b, low_b);
    const auto times = [&](Numbers& left, Numbers& right, Numbers& product) {
      const kernels::SquareMatrixBatch l{Type::float32, n, 1, 0, left.data()};
      const kernels::SquareMatrixBatch r{Type::float32, n, 1, 0, right.data()};
      const kernels::SquareMatrixBatch p{Type::float32, n, 1, 0, product.data()};
      multiply({&l, 1}, {&r, 1}, {&p, 1}, nullptr);
    };
    times(high_a, high_b, sum);
    if (precision == kernels::Precision::accurate) {
      times(high_a, low_b, term);
      for (std::size_t i = 0; i < count; ++i) sum[i] += 0x1p-11F * term[i];
      times(low_a, high_b, term);
      for (std::size_t i = 0; i < count; ++i) sum[i] += 0x1p-11F * term[i];
    }
    const float* const from = static_cast<const float*>(a.data);
    float* const to = static_cast<float*>(c.data);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
      for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
        const std::size_t at = i * static_cast<std::size_t>(n) + j;
        const std::size_t mirrored = j * static_cast<std::size_t>(n) + i;
        to[at] = static_cast<float>(weights.product) * (0.5F * sum[at] + 0.5F * sum[mirrored]) +
                 static_cast<float>(weights.first) * from[at] +
                 (i == j ? static_cast<float>(weights.identity) : 0.0F);
      }
  }

  static void split(const kernels::SquareMatrixBatch& a, Numbers& high, Numbers& low) {
    const float* const from = static_cast<const float*>(a.data);
    for (std::size_t i = 0; i < high.size(); ++i) {
      high[i] = static_cast<float>(rounded(from[i], Type::float16));
      low[i] = static_cast<float>(rounded((from[i] - high[i]) * 2048.0, Type::float16));
    }
  }
};

}  // namespace shampoo::test
