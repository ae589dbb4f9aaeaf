// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grouping/blocks.h"
#include "kernels/views.h"

namespace shampoo {

/// Row-major strides of a shape, in elements.
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);

/// How the elements of a tensor with its small dimensions merged lie in value and gradient.
class StridedTensor {
 public:
  StridedTensor(const grouping::Shape& shape, const grouping::Shape& merged,
                std::span<const std::int64_t> value_strides,
                std::span<const std::int64_t> gradient_strides);

  /// Fills in what a table says about one block but for `block`, `tensor` and flat offsets, and
  /// appends its tiles, whose flat offsets start at `flat`.
  void append(const grouping::Box& box, std::int64_t flat, kernels::Block& block,
              std::vector<kernels::Tile>& tiles) const;

 private:
  /// One dimension: of the tensor, or of a block once dimensions were joined.
  struct Dimension {
    std::int64_t extent = 1, value = 0, gradient = 0;
  };
  using Dimensions = std::vector<Dimension>;

  void append_regular(const grouping::Box& box, std::int64_t flat, kernels::Block& block,
                      std::vector<kernels::Tile>& tiles) const;
  void append_runs(const grouping::Box& box, std::int64_t flat,
                   std::vector<kernels::Tile>& tiles) const;

  /// For every merged dimension, the tensor's dimensions in it, outermost first.
  std::vector<Dimensions> parts_;
  /// The merged dimensions, where each has one stride.
  Dimensions merged_;
  bool regular_ = true;
};

}  // namespace shampoo
