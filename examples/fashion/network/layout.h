// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/fashion/network/convolution.h"
#include "examples/fashion/network/linear.h"
#include "examples/fashion/network/pooling.h"

namespace fashion {

// The network: 5x5x16, ReLU, pool, 5x5x32, ReLU, pool, 128, ReLU, 10.
inline constexpr std::int64_t image_side = 28;
inline constexpr std::int64_t image_size = image_side * image_side;
inline constexpr std::int64_t classes = 10;
inline constexpr Convolution conv1{image_side, 1, 16};
inline constexpr Pooling pool1{conv1.side, conv1.out};
inline constexpr Convolution conv2{pool1.pooled_side(), conv1.out, 32};
inline constexpr Pooling pool2{conv2.side, conv2.out};
inline constexpr Linear fc1{pool2.pooled_size(), 128};
inline constexpr Linear fc2{fc1.out, classes};

/// One parameter's place in the flat array that holds them all.
struct Placement {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset;
  std::int64_t fan_in;  ///< inputs that one output sums
};

// Where each parameter starts in that array.
inline constexpr std::int64_t conv1_weight = 0;
inline constexpr std::int64_t conv1_bias = conv1_weight + conv1.weight_size();
inline constexpr std::int64_t conv2_weight = conv1_bias + conv1.out;
inline constexpr std::int64_t conv2_bias = conv2_weight + conv2.weight_size();
inline constexpr std::int64_t fc1_weight = conv2_bias + conv2.out;
inline constexpr std::int64_t fc1_bias = fc1_weight + fc1.out * fc1.in;
inline constexpr std::int64_t fc2_weight = fc1_bias + fc1.out;
inline constexpr std::int64_t fc2_bias = fc2_weight + fc2.out * fc2.in;
inline constexpr std::int64_t parameter_count = fc2_bias + fc2.out;

/// All parameters in the order of the array.
inline std::vector<Placement> placements() {
  constexpr std::int64_t w = Convolution::window;
  return {{"conv1.weight", {conv1.out, w, w, conv1.in}, conv1_weight, w * conv1.row()},
          {"conv1.bias", {conv1.out}, conv1_bias, w * conv1.row()},
          {"conv2.weight", {conv2.out, w, w, conv2.in}, conv2_weight, w * conv2.row()},
          {"conv2.bias", {conv2.out}, conv2_bias, w * conv2.row()},
          {"fc1.weight", {fc1.out, fc1.in}, fc1_weight, fc1.in},
          {"fc1.bias", {fc1.out}, fc1_bias, fc1.in},
          {"fc2.weight", {fc2.out, fc2.in}, fc2_weight, fc2.in},
          {"fc2.bias", {fc2.out}, fc2_bias, fc2.in}};
}

}  // namespace fashion
