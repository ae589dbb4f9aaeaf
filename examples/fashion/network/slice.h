// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/fashion/network/layout.h"

namespace fashion {

/// What a network makes of some images: the sum of their cross entropies, and how many of them it
/// puts in the right class.
struct Score {
  double loss = 0;
  int correct = 0;
};

/// One part of a batch: everything between its images and its gradient, in memory of its own.
template <typename Scalar>
class Slice {
 public:
  /// Room for up to `capacity` images.
  explicit Slice(int capacity);

  /// The network's answer to the images (28 x 28 each, one after the other), given all parameters.
  Score forward(std::span<const Scalar> images, std::span<const std::uint8_t> labels,
                const Scalar* parameters);

  /// gradient() <- derivative of the loss of the images that forward() saw just before.
  void backward(std::span<const Scalar> images, const Scalar* parameters);

  /// All parameters' gradients, in the order of the parameters.
  std::span<const Scalar> gradient() const { return gradient_; }

 private:
  void forward_convolutions(std::int64_t image, const Scalar* pixels, const Scalar* parameters);
  void backward_convolutions(std::int64_t image, const Scalar* pixels, const Scalar* parameters);
  void unfold_image(const Scalar* pixels);
  Scalar* padded(std::int64_t image) { return padded_.data() + image * conv2.padded_size(); }
  Scalar* features(std::int64_t image) { return features_.data() + image * fc1.in; }
  std::int32_t* winner1(std::int64_t image) {
    return winner1_.data() + image * pool1.pooled_size();
  }
  std::int32_t* winner2(std::int64_t image) {
    return winner2_.data() + image * pool2.pooled_size();
  }

  // Kept from forward to backward, for every image.
  std::vector<Scalar> padded_, features_, hidden_, logits_;
  std::vector<std::int32_t> winner1_, winner2_;
  // Gradients of the same.
  std::vector<Scalar> features_gradient_, hidden_gradient_, gradient_;
  // Used for one image at a time.
  std::vector<Scalar> padded_image_, padded_gradient_, rows_, maps_;
};

}  // namespace fashion
