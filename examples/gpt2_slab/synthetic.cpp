// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt2_slab/synthetic.h"

#include <cmath>

namespace gpt2_slab {

namespace {

/// The mixing function of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Mean 0 and deviation 1: a sum of four numbers that are uniform in [-1/2, 1/2), over its own
/// deviation sqrt(4 / 12).
float bell(std::uint64_t stream, std::int64_t index) {
  const std::uint64_t bits = mixed(mixed(stream) ^ static_cast<std::uint64_t>(index));
  float sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += static_cast<float>(bits >> (16 * i) & 0xffffu) / 65536.0f - 0.5f;
  return sum * 1.7320508f;
}

constexpr std::uint64_t first_values = 1, targets = 2, first_noise = 1000;

}  // namespace

Synthetic::Synthetic(std::int64_t elements, double noise)
    : targets_(static_cast<std::size_t>(elements)), noise_(noise) {
  for (std::int64_t i = 0; i < elements; ++i) targets_[i] = to_bfloat16(0.02f * bell(targets, i));
}

void Synthetic::initialise(Slab& values) {
  for (std::size_t i = 0; i < values.host.size(); ++i)
    values.host[i] = to_bfloat16(0.02f * bell(first_values, static_cast<std::int64_t>(i)));
}

double Synthetic::gradients(const Slab& values, std::int64_t step, Slab& gradients) const {
  const auto noise = static_cast<float>(noise_);
  const std::uint64_t stream = first_noise + static_cast<std::uint64_t>(step);
  double loss = 0;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const float residual = to_float(values.host[i]) - to_float(targets_[i]);
    loss += 0.5 * residual * residual;
    gradients.host[i] = to_bfloat16(residual + noise * bell(stream, static_cast<std::int64_t>(i)));
  }
  return loss / static_cast<double>(targets_.size());
}

}  // namespace gpt2_slab
