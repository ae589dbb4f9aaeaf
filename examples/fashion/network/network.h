// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/fashion/network/slice.h"
#include "examples/fashion/network/workers.h"

namespace fashion {

/// A small convolutional network for 28 x 28 images in ten classes:
///
///   5x5x16, ReLU, pool 2, 5x5x32, ReLU, pool 2, 128, ReLU, 10
///
/// A batch is cut into a fixed number of slices, whose gradients are summed in order, so that
/// results do not depend on the number of threads. Nothing is allocated after construction.
template <typename Scalar>
class Network {
 public:
  /// One named tensor of the network, row-major; borrowed from it.
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    Scalar* value;
    Scalar* gradient;
  };

  /// Weights and biases are uniform in [-1, 1] / sqrt(fan in). `workers` must outlive the network.
  Network(Workers& workers, std::uint64_t seed, int largest_batch);

  /// Writes the gradient of `scale` times the sum of the images' losses, and returns the scores'
  /// sums. images: labels.size() x 784.
  /// Throws std::invalid_argument for an empty or too large batch.
  Score forward_backward(std::span<const Scalar> images, std::span<const std::uint8_t> labels,
                         Scalar scale);

  /// The same for the mean of the losses.
  Score forward_backward(std::span<const Scalar> images, std::span<const std::uint8_t> labels) {
    return forward_backward(images, labels, Scalar{1} / static_cast<Scalar>(labels.size()));
  }

  /// Only the scores' sums; the gradient stays as it is.
  Score evaluate(std::span<const Scalar> images, std::span<const std::uint8_t> labels);

  std::vector<Tensor> tensors();

 private:
  enum class Pass { forward, both };
  Score run(Pass pass, std::span<const Scalar> images, std::span<const std::uint8_t> labels);

  Workers& workers_;
  int largest_batch_;
  std::vector<Scalar> values_, gradient_;
  std::vector<Slice<Scalar>> slices_;
  std::vector<Score> scores_;
};

}  // namespace fashion
