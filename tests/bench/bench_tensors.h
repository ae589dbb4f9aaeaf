// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/buffer.h"
#include "shampoo/optimizer.h"
#include "tests/support/models.h"
#include "tests/support/named_recipes.h"

namespace shampoo::test {

/// Numbers that look normal, cheap enough for every gradient of every step.
class Noise {
 public:
  /// Fills `count` numbers of a type, float32 or bfloat16.
  void fill(void* numbers, Type type, std::int64_t count, float deviation);

 private:
  float next(float deviation);

  std::uint64_t state_ = 1;
};

/// Values and gradients of a model, in the memory of a backend.
class BenchTensors {
 public:
  /// `type` is that of values and gradients: float32 or bfloat16.
  BenchTensors(kernels::Backend& backend, const Model& model, Type type);

  /// One group for each of `groups`, with its own learning rate; tensor i belongs to group
  /// i mod groups. Vectors and scalars under Spectral are left out.
  std::vector<ParameterGroup> groups(const Model& model, int groups,
                                     const NamedRecipe& recipe) const;

  /// Random gradients for the next step. On the host fresh ones; on a device two sets take turns,
  /// because drawing takes far longer than a step.
  void draw_gradients();

 private:
  void* at(const kernels::Buffer& buffer, std::size_t tensor) const;

  kernels::Backend& backend_;
  Type type_;
  Noise noise_;
  std::vector<std::int64_t> begins_;  ///< elements, of every tensor and of their end
  kernels::Buffer values_, gradients_;
  std::array<kernels::Buffer, 2> sets_;
  int turn_ = 0;
};

}  // namespace shampoo::test
