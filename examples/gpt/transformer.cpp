// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/transformer.h"

#include <algorithm>

#include "examples/fashion/network/linear.h"
#include "examples/gpt/layers.h"

namespace gpt {

using fashion::Into;
using fashion::Linear;
using fashion::Op;

template <typename Scalar>
Transformer<Scalar>::Transformer(const Layout& layout, std::int64_t most_sequences)
    : layout_(layout) {
  const Size& size = layout.size();
  const auto rows = static_cast<std::size_t>(most_sequences * size.context);
  const auto width = static_cast<std::size_t>(size.width);
  const auto normed = [&] {
    return Normed{Vector(rows * width), Vector(rows), Vector(rows * width)};
  };
  for (std::int64_t layer = 0; layer < size.layers; ++layer)
    layers_.push_back({normed(), normed(), Vector(rows * 3 * width),
                       Vector(rows * static_cast<std::size_t>(size.heads * size.context)),
                       Vector(rows * width), Vector(rows * 4 * width), Vector(rows * 4 * width)});
  last_ = normed();
  stream_.resize(rows * width);
  branch_.resize(rows * width);
  wide_.resize(rows * 4 * width);
  scratch_.resize(static_cast<std::size_t>(size.context * size.context));
  logits_.resize(rows * vocabulary);
}

template <typename Scalar>
void Transformer<Scalar>::norm(const Scalar* values, Part gain, Part bias, std::int64_t layer,
                               Normed& to) {
  layer_norm(rows_, layout_.size().width, stream_.data(), values + layout_.at(gain, layer),
             values + layout_.at(bias, layer), to.normal.data(), to.scale.data(), to.output.data());
}

template <typename Scalar>
void Transformer<Scalar>::differentiate_norm(const Scalar* values, Part gain, Part bias,
                                             std::int64_t layer, const Normed& of,
                                             const Vector& output_gradient, Scalar* gradients) {
  differentiate_layer_norm(rows_, layout_.size().width, output_gradient.data(), of.normal.data(),
                           of.scale.data(), values + layout_.at(gain, layer),
                           gradients + layout_.at(gain, layer), gradients + layout_.at(bias, layer),
                           stream_.data());
}

template <typename Scalar>
void Transformer<Scalar>::embed(const Scalar* values) {
  const std::int64_t width = layout_.size().width, context = layout_.size().context;
  for (std::int64_t i = 0; i < rows_; ++i) {
    const Scalar* const token = values + layout_.at(Part::wte) + windows_[i + i / context] * width;
    const Scalar* const position = values + layout_.at(Part::wpe) + i % context * width;
    for (std::int64_t k = 0; k < width; ++k) stream_[i * width + k] = token[k] + position[k];
  }
}

template <typename Scalar>
void Transformer<Scalar>::differentiate_embedding(Scalar* gradients) const {
  const std::int64_t width = layout_.size().width, context = layout_.size().context;
  for (std::int64_t i = 0; i < rows_; ++i) {
    Scalar* const token = gradients + layout_.at(Part::wte) + windows_[i + i / context] * width;
    Scalar* const position = gradients + layout_.at(Part::wpe) + i % context * width;
    for (std::int64_t k = 0; k < width; ++k) {
      token[k] += stream_[i * width + k];
      position[k] += stream_[i * width + k];
    }
  }
}

template <typename Scalar>
void Transformer<Scalar>::run(const Scalar* values, std::span<const std::uint8_t> windows) {
  using enum Part;
  const auto& [layers, width, heads, context] = layout_.size();
  windows_ = windows;
  sequences_ = std::ssize(windows) / (context + 1);
  rows_ = sequences_ * context;
  const std::int64_t size = rows_ * width;
  const auto linear = [&](Linear l, std::int64_t layer, const Vector& input, Part weight, Part bias,
                          Vector& output) {
    apply(l, rows_, input.data(), values + layout_.at(weight, layer),
          values + layout_.at(bias, layer), output.data());
  };
  const auto add_branch = [&] {
    for (std::int64_t i = 0; i < size; ++i) stream_[i] += branch_[i];
  };
  embed(values);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    Layer& own = layers_[layer];
    norm(values, ln_1_weight, ln_1_bias, layer, own.first);
    linear({width, 3 * width}, layer, own.first.output, c_attn_weight, c_attn_bias, own.qkv);
    attend({sequences_, context, heads, width}, own.qkv.data(), own.weights.data(),
           own.mixed.data());
    linear({width, width}, layer, own.mixed, attn_c_proj_weight, attn_c_proj_bias, branch_);
    add_branch();
    norm(values, ln_2_weight, ln_2_bias, layer, own.second);
    linear({width, 4 * width}, layer, own.second.output, c_fc_weight, c_fc_bias, own.slope);
    gelu(4 * size, own.slope.data(), own.hidden.data());
    linear({4 * width, width}, layer, own.hidden, mlp_c_proj_weight, mlp_c_proj_bias, branch_);
    add_branch();
  }
  norm(values, ln_f_weight, ln_f_bias, 0, last_);
  multiply({last_.output.data(), width}, Op::plain, {values + layout_.at(lm_head), width},
           Op::transposed, {logits_.data(), vocabulary}, rows_, vocabulary, width, Into::replace);
}

template <typename Scalar>
std::span<const Scalar> Transformer<Scalar>::last_logits() const {
  return {logits_.data() + (rows_ - 1) * vocabulary, vocabulary};
}

template <typename Scalar>
double Transformer<Scalar>::cross_entropy() {
  double sum = 0;
  for (std::int64_t i = 0; i < rows_; ++i)
    sum += fashion::cross_entropy(vocabulary, windows_[i + i / layout_.size().context + 1],
                                  logits_.data() + i * vocabulary);
  return sum;
}

template <typename Scalar>
void Transformer<Scalar>::differentiate(const Scalar* values, Scalar scale, Scalar* gradients) {
  using enum Part;
  const auto& [layers, width, heads, context] = layout_.size();
  std::fill_n(gradients, layout_.elements(), Scalar{0});
  std::fill_n(stream_.begin(), rows_ * width, Scalar{0});
  for (std::int64_t i = 0; i < rows_ * vocabulary; ++i) logits_[i] *= scale;
  const auto linear = [&](Linear l, std::int64_t layer, const Vector& output_gradient,
                          const Vector& input, Part weight, Part bias, Vector& input_gradient) {
    fashion::differentiate(l, rows_, output_gradient.data(), input.data(),
                           values + layout_.at(weight, layer),
                           gradients + layout_.at(weight, layer),
                           gradients + layout_.at(bias, layer), input_gradient.data());
  };
  const fashion::Matrix<const Scalar> d{logits_.data(), vocabulary};
  multiply(d, Op::transposed, {last_.output.data(), width}, Op::plain,
           {gradients + layout_.at(lm_head), width}, vocabulary, width, rows_, Into::replace);
  multiply(d, Op::plain, {values + layout_.at(lm_head), width}, Op::plain, {branch_.data(), width},
           rows_, width, vocabulary, Into::replace);
  differentiate_norm(values, ln_f_weight, ln_f_bias, 0, last_, branch_, gradients);
  for (std::int64_t layer = layers - 1; layer >= 0; --layer) {
    const Layer& own = layers_[layer];
    linear({4 * width, width}, layer, stream_, own.hidden, mlp_c_proj_weight, mlp_c_proj_bias,
           wide_);
    for (std::int64_t i = 0; i < rows_ * 4 * width; ++i) wide_[i] *= own.slope[i];
    linear({width, 4 * width}, layer, wide_, own.second.output, c_fc_weight, c_fc_bias, branch_);
    differentiate_norm(values, ln_2_weight, ln_2_bias, layer, own.second, branch_, gradients);
    linear({width, width}, layer, stream_, own.mixed, attn_c_proj_weight, attn_c_proj_bias,
           branch_);
    differentiate_attention({sequences_, context, heads, width}, branch_.data(), own.qkv.data(),
                            own.weights.data(), scratch_.data(), wide_.data());
    linear({width, 3 * width}, layer, wide_, own.first.output, c_attn_weight, c_attn_bias, branch_);
    differentiate_norm(values, ln_1_weight, ln_1_bias, layer, own.first, branch_, gradients);
  }
  differentiate_embedding(gradients);
}

template class Transformer<float>;
template class Transformer<double>;

}  // namespace gpt
