// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/network.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "examples/fashion/random.h"

namespace fashion {

namespace {

constexpr int slice_count = 4;

std::int64_t elements(const Placement& placement) {
  return std::accumulate(placement.shape.begin(), placement.shape.end(), std::int64_t{1},
                         std::multiplies<>());
}

}  // namespace

template <typename Scalar>
Network<Scalar>::Network(Workers& workers, std::uint64_t seed, int largest_batch)
    : workers_(workers),
      largest_batch_(largest_batch),
      values_(parameter_count),
      gradient_(parameter_count),
      scores_(slice_count) {
  for (int s = 0; s < slice_count; ++s) slices_.emplace_back(largest_batch / slice_count + 1);
  Random random(seed);
  for (const Placement& placement : placements()) {
    const double bound = 1 / std::sqrt(static_cast<double>(placement.fan_in));
    for (std::int64_t i = 0; i < elements(placement); ++i)
      values_[placement.offset + i] = static_cast<Scalar>(bound * (2 * random.uniform() - 1));
  }
}

template <typename Scalar>
Score Network<Scalar>::forward_backward(std::span<const Scalar> images,
                                        std::span<const std::uint8_t> labels, Scalar scale) {
  const Score score = run(Pass::both, images, labels);
  std::span<const Scalar> parts[slice_count];
  for (int s = 0; s < slice_count; ++s) parts[s] = slices_[s].gradient();
  // gradient <- scale * (sum over the slices)
  for (std::int64_t i = 0; i < parameter_count; ++i) {
    Scalar sum = 0;
    for (const std::span<const Scalar> part : parts) sum += part[i];
    gradient_[i] = scale * sum;
  }
  return score;
}

template <typename Scalar>
Score Network<Scalar>::evaluate(std::span<const Scalar> images,
                                std::span<const std::uint8_t> labels) {
  return run(Pass::forward, images, labels);
}

template <typename Scalar>
Score Network<Scalar>::run(Pass pass, std::span<const Scalar> images,
                           std::span<const std::uint8_t> labels) {
  const auto count = static_cast<std::int64_t>(labels.size());
  if (count < 1 || count > largest_batch_)
    throw std::invalid_argument("network: a batch must hold from 1 to " +
                                std::to_string(largest_batch_) + " images, got " +
                                std::to_string(labels.size()));
  if (images.size() != labels.size() * image_size)
    throw std::invalid_argument("network: there must be 784 pixels for every label");
  workers_.run(slice_count, [&](int s) {
    const std::int64_t first = count * s / slice_count;
    const std::int64_t size = count * (s + 1) / slice_count - first;
    const auto part = images.subspan(first * image_size, size * image_size);
    scores_[s] = slices_[s].forward(part, labels.subspan(first, size), values_.data());
    if (pass == Pass::both) slices_[s].backward(part, values_.data());
  });
  Score sum;
  for (const Score& score : scores_) {
    sum.loss += score.loss;
    sum.correct += score.correct;
  }
  return sum;
}

template <typename Scalar>
std::vector<typename Network<Scalar>::Tensor> Network<Scalar>::tensors() {
  std::vector<Tensor> list;
  for (const Placement& p : placements())
    list.push_back({p.name, p.shape, values_.data() + p.offset, gradient_.data() + p.offset});
  return list;
}

template class Network<float>;
template class Network<double>;

}  // namespace fashion
