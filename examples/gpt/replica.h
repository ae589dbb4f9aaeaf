// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/fashion/network/workers.h"
#include "examples/gpt/transformer.h"

namespace gpt {

/// The model on one rank: its sequences are cut into four slices, whatever the threads, whose
/// gradients are added up in their order. So the bits do not depend on threads.
class Replica {
 public:
  Replica(const Layout& layout, int threads, std::int64_t most_sequences);

  /// Cross entropy, in nats, summed over all positions of all windows. Any number of them.
  double cross_entropy(const std::vector<float>& values, std::span<const std::uint8_t> windows);
  /// The same for at most most_sequences windows, with the gradients of `scale` times the sum.
  double differentiate(const std::vector<float>& values, std::span<const std::uint8_t> windows,
                       float scale, std::vector<float>& gradients);
  /// Continues a text of at least context bytes by `count` bytes, each drawn by its probability. A
  /// function of the values, the text and the seed.
  std::vector<std::uint8_t> continuation(const std::vector<float>& values,
                                         std::vector<std::uint8_t> text, int count,
                                         std::uint64_t seed);

 private:
  struct Slice {
    Transformer<float> model;
    std::vector<float> gradients;
    double sum = 0;
  };
  template <typename Body>
  double in_slices(std::span<const std::uint8_t> windows, const Body& body);

  const Layout& layout_;
  std::int64_t most_sequences_;
  fashion::Workers workers_;
  std::vector<Slice> slices_;
};

}  // namespace gpt
