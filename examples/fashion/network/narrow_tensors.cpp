// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/narrow_tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace fashion {

namespace {

std::uint16_t to_bfloat16(float x) {
  if (std::isnan(x)) return 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_bfloat16(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

std::uint16_t to_float16(float x) {
  constexpr float overflow = 65520, least_normal = 0x1p-14f;
  const int sign = std::signbit(x) ? 0x8000 : 0;
  const float magnitude = std::fabs(x);
  int bits = 0;
  if (std::isnan(x)) {
    bits = 0x7e00;
  } else if (magnitude >= overflow) {
    bits = 0x7c00;
  } else if (magnitude < least_normal) {
    bits = static_cast<int>(std::nearbyint(magnitude * 0x1p24f));
  } else {
    int exponent = 0;  // magnitude in [2^(exponent - 1), 2^exponent)
    std::frexp(magnitude, &exponent);
    const int significand = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 11 - exponent)));
    bits = ((exponent + 14) << 10) + significand - 1024;
  }
  return static_cast<std::uint16_t>(sign | bits);
}

float from_float16(std::uint16_t x) {
  const int exponent = x >> 10 & 31, fraction = x & 1023;
  float magnitude = 0;
  if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  else if (exponent < 31)
    magnitude = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  else
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  return (x & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

NarrowTensors::NarrowTensors(Network<float>& network, Precision precision) : precision_(precision) {
  for (const auto& tensor : network.tensors()) {
    const auto count =
        std::reduce(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
    const std::vector<std::uint16_t> zeros(static_cast<std::size_t>(count));
    tensors_.push_back({tensor.value, tensor.gradient, zeros, zeros});
  }
  round_values();
  widen_values();
}

void NarrowTensors::widen_values() {
  for (Tensor& tensor : tensors_)
    std::ranges::transform(tensor.value, tensor.wide_value,
                           precision_ == Precision::bf16 ? from_bfloat16 : from_float16);
}

void NarrowTensors::round_values() {
  for (Tensor& tensor : tensors_)
    std::transform(tensor.wide_value, tensor.wide_value + tensor.value.size(), tensor.value.begin(),
                   precision_ == Precision::bf16 ? to_bfloat16 : to_float16);
}

void NarrowTensors::round_gradients() {
  for (Tensor& tensor : tensors_)
    std::transform(tensor.wide_gradient, tensor.wide_gradient + tensor.gradient.size(),
                   tensor.gradient.begin(),
                   precision_ == Precision::bf16 ? to_bfloat16 : to_float16);
}

}  // namespace fashion
