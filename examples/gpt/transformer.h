// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/gpt/layout.h"

namespace gpt {

/// Forward and backward of a GPT-2 shaped model on some sequences, in float or double. A sequence
/// is a window of context + 1 bytes: each but the last is asked for the one behind it.
template <typename Scalar>
class Transformer {
 public:
  Transformer(const Layout& layout, std::int64_t most_sequences);

  /// Computes the logits of all positions; `windows` holds at most most_sequences windows.
  void run(const Scalar* values, std::span<const std::uint8_t> windows);
  /// The logits behind the last but one byte of the last window, until cross_entropy().
  std::span<const Scalar> last_logits() const;
  /// The cross entropy, in nats, summed over all positions. Replaces the logits by their gradients.
  double cross_entropy();
  /// Gradients of `scale` times the sum, after cross_entropy(). Overwrites all of the slab.
  void differentiate(const Scalar* values, Scalar scale, Scalar* gradients);

 private:
  using Vector = std::vector<Scalar>;
  struct Normed {
    Vector normal, scale, output;
  };
  struct Layer {
    Normed first, second;
    Vector qkv, weights, mixed, slope, hidden;
  };

  void norm(const Scalar* values, Part gain, Part bias, std::int64_t layer, Normed& to);
  void differentiate_norm(const Scalar* values, Part gain, Part bias, std::int64_t layer,
                          const Normed& of, const Vector& output_gradient, Scalar* gradients);
  void embed(const Scalar* values);
  void differentiate_embedding(Scalar* gradients) const;

  const Layout& layout_;
  std::span<const std::uint8_t> windows_;
  std::int64_t sequences_ = 0, rows_ = 0;
  std::vector<Layer> layers_;
  Normed last_;
  Vector stream_;   ///< the residual stream, then its gradient
  Vector branch_;   ///< what a layer adds to it, then a gradient of that
  Vector wide_;     ///< gradients of qkv or of the hidden layer
  Vector scratch_;  ///< of attention
  Vector logits_;
};

extern template class Transformer<float>;
extern template class Transformer<double>;

}  // namespace gpt
