// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "examples/fashion/network/gemm.h"

namespace fashion {

/// A fully connected layer; its weights are (out, in).
struct Linear {
  std::int64_t in;
  std::int64_t out;
};

/// output <- input weight^T + bias, for `images` rows
template <typename Scalar>
void apply(Linear l, std::int64_t images, const Scalar* input, const Scalar* weight,
           const Scalar* bias, Scalar* output) {
  for (std::int64_t i = 0; i < images; ++i) std::copy_n(bias, l.out, output + i * l.out);
  multiply({input, l.in}, Op::plain, {weight, l.in}, Op::transposed, {output, l.out}, images, l.out,
           l.in, Into::add);
}

/// weight_gradient <- output_gradient^T input;  bias_gradient <- column sums of output_gradient;
/// input_gradient <- output_gradient weight
template <typename Scalar>
void differentiate(Linear l, std::int64_t images, const Scalar* output_gradient,
                   const Scalar* input, const Scalar* weight, Scalar* weight_gradient,
                   Scalar* bias_gradient, Scalar* input_gradient) {
  multiply({output_gradient, l.out}, Op::transposed, {input, l.in}, Op::plain,
           {weight_gradient, l.in}, l.out, l.in, images, Into::replace);
  std::fill_n(bias_gradient, l.out, Scalar{0});
  for (std::int64_t i = 0; i < images; ++i)
    for (std::int64_t k = 0; k < l.out; ++k) bias_gradient[k] += output_gradient[i * l.out + k];
  multiply({output_gradient, l.out}, Op::plain, {weight, l.in}, Op::plain, {input_gradient, l.in},
           images, l.in, l.out, Into::replace);
}

/// x <- max(0, x)
template <typename Scalar>
void rectify(std::int64_t count, Scalar* x) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] > 0 ? x[i] : Scalar{0};
}

/// gradient <- 0 where x was not positive
template <typename Scalar>
void differentiate_rectified(std::int64_t count, const Scalar* x, Scalar* gradient) {
  for (std::int64_t i = 0; i < count; ++i) gradient[i] = x[i] > 0 ? gradient[i] : Scalar{0};
}

/// Replaces one image's logits z by the gradient of its cross entropy, softmax(z) - onehot(label),
/// and returns the cross entropy, log(sum of exp(z)) - z(label).
template <typename Scalar>
double cross_entropy(std::int64_t classes, std::int64_t label, Scalar* logits) {
  const Scalar largest = *std::max_element(logits, logits + classes);
  const double margin = static_cast<double>(logits[label]) - static_cast<double>(largest);
  Scalar sum = 0;
  for (std::int64_t k = 0; k < classes; ++k) sum += logits[k] = std::exp(logits[k] - largest);
  for (std::int64_t k = 0; k < classes; ++k) logits[k] /= sum;
  logits[label] -= Scalar{1};
  return std::log(static_cast<double>(sum)) - margin;
}

}  // namespace fashion
