// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/slice.h"

#include <algorithm>

namespace fashion {

namespace {

/// The inside of a padded image, without its border.
template <typename Scalar>
Maps<Scalar> inside(Convolution c, Scalar* padded) {
  const std::int64_t pitch = c.padded_side() * c.in;
  return {padded + Convolution::border * (pitch + c.in), pitch};
}

}  // namespace

template <typename Scalar>
Slice<Scalar>::Slice(int capacity)
    : padded_(capacity * conv2.padded_size()),
      features_(capacity * fc1.in),
      hidden_(capacity * fc1.out),
      logits_(capacity * fc2.out),
      winner1_(capacity * pool1.pooled_size()),
      winner2_(capacity * pool2.pooled_size()),
      features_gradient_(features_.size()),
      hidden_gradient_(hidden_.size()),
      gradient_(parameter_count),
      padded_image_(conv1.padded_size()),
      padded_gradient_(conv2.padded_size()),
      rows_(std::max(conv1.rows_size(), conv2.rows_size())),
      maps_(std::max(conv1.output_size(), conv2.output_size())) {}

template <typename Scalar>
Score Slice<Scalar>::forward(std::span<const Scalar> images, std::span<const std::uint8_t> labels,
                             const Scalar* parameters) {
  const auto count = static_cast<std::int64_t>(labels.size());
  for (std::int64_t i = 0; i < count; ++i)
    forward_convolutions(i, images.data() + i * image_size, parameters);
  apply(fc1, count, features_.data(), parameters + fc1_weight, parameters + fc1_bias,
        hidden_.data());
  rectify(count * fc1.out, hidden_.data());
  apply(fc2, count, hidden_.data(), parameters + fc2_weight, parameters + fc2_bias, logits_.data());

  Score score;
  for (std::int64_t i = 0; i < count; ++i) {
    Scalar* logits = logits_.data() + i * classes;
    score.correct += std::max_element(logits, logits + classes) - logits == labels[i];
    score.loss += cross_entropy(classes, labels[i], logits);
  }
  return score;
}

template <typename Scalar>
void Slice<Scalar>::backward(std::span<const Scalar> images, const Scalar* parameters) {
  const std::int64_t count = static_cast<std::int64_t>(images.size()) / image_size;
  std::fill_n(gradient_.data(), fc1_weight, Scalar{0});  // the convolutions add theirs up
  Scalar* gradient = gradient_.data();
  differentiate(fc2, count, logits_.data(), hidden_.data(), parameters + fc2_weight,
                gradient + fc2_weight, gradient + fc2_bias, hidden_gradient_.data());
  differentiate_rectified(count * fc1.out, hidden_.data(), hidden_gradient_.data());
  differentiate(fc1, count, hidden_gradient_.data(), features_.data(), parameters + fc1_weight,
                gradient + fc1_weight, gradient + fc1_bias, features_gradient_.data());
  for (std::int64_t i = 0; i < count; ++i)
    backward_convolutions(i, images.data() + i * image_size, parameters);
}

template <typename Scalar>
void Slice<Scalar>::forward_convolutions(std::int64_t image, const Scalar* pixels,
                                         const Scalar* parameters) {
  unfold_image(pixels);
  convolve(conv1, rows_.data(), parameters + conv1_weight, parameters + conv1_bias, maps_.data());
  pool(pool1, maps_.data(), inside(conv2, padded(image)), winner1(image));
  unfold(conv2, padded(image), rows_.data());
  convolve(conv2, rows_.data(), parameters + conv2_weight, parameters + conv2_bias, maps_.data());
  pool(pool2, maps_.data(), {features(image), pool2.pooled_side() * pool2.channels},
       winner2(image));
}

template <typename Scalar>
void Slice<Scalar>::backward_convolutions(std::int64_t image, const Scalar* pixels,
                                          const Scalar* parameters) {
  const Scalar* features_gradient = features_gradient_.data() + image * fc1.in;
  unpool(pool2, {features_gradient, pool2.pooled_side() * pool2.channels}, winner2(image),
         maps_.data(), gradient_.data() + conv2_bias);
  unfold(conv2, padded(image), rows_.data());
  add_weight_gradient(conv2, rows_.data(), maps_.data(), gradient_.data() + conv2_weight);
  find_rows_gradient(conv2, maps_.data(), parameters + conv2_weight, rows_.data());
  fold(conv2, rows_.data(), padded_gradient_.data());

  const Maps<Scalar> pooled_gradient = inside(conv2, padded_gradient_.data());
  unpool(pool1, {pooled_gradient.data, pooled_gradient.pitch}, winner1(image), maps_.data(),
         gradient_.data() + conv1_bias);
  unfold_image(pixels);
  add_weight_gradient(conv1, rows_.data(), maps_.data(), gradient_.data() + conv1_weight);
}

template <typename Scalar>
void Slice<Scalar>::unfold_image(const Scalar* pixels) {
  const Maps<Scalar> to = inside(conv1, padded_image_.data());
  for (std::int64_t y = 0; y < image_side; ++y)
    std::copy_n(pixels + y * image_side, image_side, to.data + y * to.pitch);
  unfold(conv1, padded_image_.data(), rows_.data());
}

template class Slice<float>;
template class Slice<double>;

}  // namespace fashion
