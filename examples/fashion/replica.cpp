// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/replica.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>

#include "examples/fashion/network/layout.h"

namespace fashion {

namespace {

Share batch_share(const shampoo::Communicator& ranks) {
  if (ranks.size() > batch_size)
    throw std::invalid_argument("ranks: there must be at most " + std::to_string(batch_size) +
                                ", one for each image of a batch, got " +
                                std::to_string(ranks.size()));
  return share(batch_size, ranks.rank(), ranks.size());
}

}  // namespace

Replica::Replica(shampoo::Communicator& ranks, const Dataset& dataset,
                 const Normalisation& normalisation, int threads, std::uint64_t seed)
    : ranks_(ranks),
      share_(batch_share(ranks)),
      test_(dataset.test),
      normalisation_(normalisation),
      workers_(threads),
      network_(workers_, seed, batch_size),
      batches_(dataset.train, normalisation, batch_size, seed, share_),
      test_batch_(batch_size * image_size) {
  for (const auto& tensor : network_.tensors())
    gradients_.push_back({.data = tensor.gradient,
                          .count = std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                                                   std::int64_t{1}, std::multiplies<>()),
                          .type = shampoo::Type::float32});
}

double Replica::find_gradient() {
  batches_.advance();
  // average() divides by the number of ranks, which the scale therefore contains.
  const float scale = 1.0f / batch_size * static_cast<float>(ranks_.size());
  const Score own = network_.forward_backward(batches_.images(), batches_.labels(), scale);
  ranks_.average(gradients_);
  return own.loss;
}

double Replica::test_accuracy() {
  double correct = own_correct();
  ranks_.all_reduce(&correct, 1, shampoo::Type::float64);
  return 100.0 * correct / test_.count();
}

int Replica::own_correct() {
  const Share own = share(test_.count(), ranks_.rank(), ranks_.size());
  int correct = 0;
  for (int done = 0; done < own.count; done += batch_size) {
    const int first = own.first + done;
    const int count = std::min(batch_size, own.count - done);
    normalisation_.apply(std::span(test_.pixels).subspan(first * image_size, count * image_size),
                         test_batch_.data());
    correct += network_
                   .evaluate(std::span<const float>(test_batch_).first(count * image_size),
                             std::span(test_.labels).subspan(first, count))
                   .correct;
  }
  return correct;
}

}  // namespace fashion
