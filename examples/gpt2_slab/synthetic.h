// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "examples/gpt2_slab/slab.h"

namespace gpt2_slab {

/// Stands in for forward and backward: the loss |W - T|^2 / 2 per element for fixed targets T,
/// whose gradient comes with noise, as from small batches. Equal on all ranks, which see the same
/// noise.
class Synthetic {
 public:
  Synthetic(std::int64_t elements, double noise);

  /// Fills `gradients.host` for the values in `values.host`. Returns the mean loss of an element.
  double gradients(const Slab& values, std::int64_t step, Slab& gradients) const;

  /// The first values: those of llm.c, normally distributed with deviation 0.02, about.
  static void initialise(Slab& values);

 private:
  std::vector<std::uint16_t> targets_;
  double noise_;
};

}  // namespace gpt2_slab
