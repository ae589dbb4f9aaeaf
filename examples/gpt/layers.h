// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "examples/fashion/network/gemm.h"

/// Layers of a transformer and their derivatives, beside the linear ones of fashion. Rows are
/// tokens.
namespace gpt {

/// e^x in a form that compilers vectorise: 2^n p(r) with |r| <= log(2) / 2 and p the Taylor
/// polynomial of e^r, whose remainder is below r^8 / 8! < 6e-9. x is clamped to where e^x is
/// normal; NaN for what is not finite.
inline float exponential(float x) {
  const float clamped = std::min(87.0f, std::max(-87.0f, x));
  const float shifted = clamped * 1.44269504f + 12582912.0f;  // 1.5 2^23: rounds to an integer
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // log(2) in two parts
  float p = 1.0f / 5040;
  for (const float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    p = p * r + c;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23) + 0.0f * x;
}
inline double exponential(double x) { return std::exp(x); }

/// normal <- (x - mean) scale with scale = 1 / sqrt(variance + 1e-5), of each row;
/// output <- gain normal + bias
template <typename Scalar>
void layer_norm(std::int64_t rows, std::int64_t width, const Scalar* x, const Scalar* gain,
                const Scalar* bias, Scalar* normal, Scalar* scale, Scalar* output) {
  for (std::int64_t i = 0; i < rows; ++i, x += width, normal += width, output += width) {
    Scalar mean = 0, variance = 0;
    for (std::int64_t k = 0; k < width; ++k) mean += x[k];
    mean /= static_cast<Scalar>(width);
    for (std::int64_t k = 0; k < width; ++k) variance += (x[k] - mean) * (x[k] - mean);
    scale[i] = 1 / std::sqrt(variance / static_cast<Scalar>(width) + Scalar(1e-5));
    for (std::int64_t k = 0; k < width; ++k) {
      normal[k] = (x[k] - mean) * scale[i];
      output[k] = gain[k] * normal[k] + bias[k];
    }
  }
}

/// With D = gain * output_gradient: input_gradient <- input_gradient +
/// scale (D - mean(D) - normal mean(D normal)) of each row. The gradients of gain and bias are
/// added to as well.
template <typename Scalar>
void differentiate_layer_norm(std::int64_t rows, std::int64_t width, const Scalar* output_gradient,
                              const Scalar* normal, const Scalar* scale, const Scalar* gain,
                              Scalar* gain_gradient, Scalar* bias_gradient,
                              Scalar* input_gradient) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar* const d = output_gradient + i * width;
    const Scalar* const n = normal + i * width;
    Scalar* const input = input_gradient + i * width;
    Scalar mean = 0, along = 0;
    for (std::int64_t k = 0; k < width; ++k) {
      mean += d[k] * gain[k];
      along += d[k] * gain[k] * n[k];
      gain_gradient[k] += d[k] * n[k];
      bias_gradient[k] += d[k];
    }
    mean /= static_cast<Scalar>(width);
    along /= static_cast<Scalar>(width);
    for (std::int64_t k = 0; k < width; ++k)
      input[k] += scale[i] * (d[k] * gain[k] - mean - n[k] * along);
  }
}

/// GPT-2's GELU, x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), which is x s with
/// s = 1 / (1 + e^-2u). x becomes the slope, s + 2 x s (1 - s) u'.
template <typename Scalar>
void gelu(std::int64_t count, Scalar* x, Scalar* output) {
  constexpr Scalar a = Scalar(0.7978845608028654), b = Scalar(0.044715);
  for (std::int64_t i = 0; i < count; ++i) {
    const Scalar v = x[i];
    const Scalar s = 1 / (1 + exponential(-2 * a * (v + b * v * v * v)));
    output[i] = v * s;
    x[i] = s + 2 * v * s * (1 - s) * a * (1 + 3 * b * v * v);
  }
}

/// The sides of causal attention.
struct Attention {
  std::int64_t sequences, context, heads, width;

  std::int64_t side() const { return width / heads; }

  /// Calls visit(offset in rows of qkv, offset in rows of the output, index) for every head.
  template <typename Visitor>
  void for_each_head(Visitor&& visit) const {
    for (std::int64_t i = 0; i < sequences * heads; ++i) {
      const std::int64_t row = i / heads * context, column = i % heads * side();
      visit(row * 3 * width + column, row * width + column, i);
    }
  }
};

/// weights <- softmax(Q K^T / sqrt(side)) over the positions up to one's own;  output <- weights V
template <typename Scalar>
void attend(const Attention& a, const Scalar* qkv, Scalar* weights, Scalar* output) {
  using namespace fashion;
  const std::int64_t t = a.context, stride = 3 * a.width;
  const Scalar scale = 1 / std::sqrt(static_cast<Scalar>(a.side()));
  a.for_each_head([&](std::int64_t in, std::int64_t out, std::int64_t index) {
    const Scalar* const q = qkv + in;
    Scalar* const w = weights + index * t * t;
    multiply({q, stride}, Op::plain, {q + a.width, stride}, Op::transposed, {w, t}, t, t, a.side(),
             Into::replace);
    for (std::int64_t i = 0; i < t; ++i) {
      Scalar* const row = w + i * t;
      const Scalar largest = *std::max_element(row, row + i + 1);
      Scalar sum = 0;
      for (std::int64_t j = 0; j <= i; ++j) sum += row[j] = exponential(scale * (row[j] - largest));
      for (std::int64_t j = 0; j <= i; ++j) row[j] /= sum;
      std::fill(row + i + 1, row + t, Scalar{0});
    }
    multiply({w, t}, Op::plain, {q + 2 * a.width, stride}, Op::plain, {output + out, a.width}, t,
             a.side(), t, Into::replace);
  });
}

/// With D = output_gradient V^T and S_ij = weights_ij (D_ij - sum_k weights_ik D_ik) / sqrt(side):
/// the gradients of Q, K and V are S K, S^T Q and weights^T output_gradient. `scratch` has
/// context x context elements.
template <typename Scalar>
void differentiate_attention(const Attention& a, const Scalar* output_gradient, const Scalar* qkv,
                             const Scalar* weights, Scalar* scratch, Scalar* qkv_gradient) {
  using namespace fashion;
  const std::int64_t t = a.context, stride = 3 * a.width, side = a.side();
  const Scalar scale = 1 / std::sqrt(static_cast<Scalar>(side));
  a.for_each_head([&](std::int64_t in, std::int64_t out, std::int64_t index) {
    const Scalar* const q = qkv + in;
    const Scalar* const w = weights + index * t * t;
    const Matrix<const Scalar> d{output_gradient + out, a.width};
    Scalar* const gradient = qkv_gradient + in;
    multiply(d, Op::plain, {q + 2 * a.width, stride}, Op::transposed, {scratch, t}, t, t, side,
             Into::replace);
    for (std::int64_t i = 0; i < t; ++i) {
      Scalar* const s = scratch + i * t;
      Scalar mean = 0;
      for (std::int64_t j = 0; j <= i; ++j) mean += w[i * t + j] * s[j];
      for (std::int64_t j = 0; j < t; ++j) s[j] = scale * w[i * t + j] * (s[j] - mean);
    }
    const Matrix<const Scalar> s{scratch, t};
    multiply(s, Op::plain, {q + a.width, stride}, Op::plain, {gradient, stride}, t, side, t,
             Into::replace);
    multiply(s, Op::transposed, {q, stride}, Op::plain, {gradient + a.width, stride}, t, side, t,
             Into::replace);
    multiply({w, t}, Op::transposed, d, Op::plain, {gradient + 2 * a.width, stride}, t, side, t,
             Into::replace);
  });
}

}  // namespace gpt
