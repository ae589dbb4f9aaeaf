// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/replica.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "examples/fashion/network/layout.h"
#include "shampoo/shampoo.h"

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
                 const Normalisation& normalisation, int threads, std::uint64_t seed,
                 const Numerics& numerics)
    : ranks_(ranks),
      share_(batch_share(ranks)),
      test_(dataset.test),
      normalisation_(normalisation),
      workers_(threads),
      network_(workers_, seed, batch_size),
      batches_(dataset.train, normalisation, batch_size, seed, share_),
      micro_batches_(numerics.micro_batches),
      test_batch_(batch_size * image_size) {
  if (const int most = batch_size / ranks.size(); micro_batches_ > most)
    throw std::invalid_argument("--accumulate: must be at most " + std::to_string(most) +
                                ", the images of a batch that a rank has, got " +
                                std::to_string(micro_batches_));
  for (const auto& tensor : network_.tensors())
    parameters_.push_back({.name = tensor.name,
                           .shape = tensor.shape,
                           .value = tensor.value,
                           .gradient = tensor.gradient});
  if (numerics.precision != Precision::fp32) {
    const auto type =
        numerics.precision == Precision::bf16 ? shampoo::Type::bfloat16 : shampoo::Type::float16;
    narrow_.emplace(network_, numerics.precision);
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      NarrowTensors::Tensor& tensor = narrow_->tensors()[p];
      parameters_[p].value = shampoo::Tensor(tensor.value.data(), type);
      parameters_[p].gradient = shampoo::Tensor(tensor.gradient.data(), type);
    }
  }
  if (micro_batches_ > 1) {
    accumulation_ = shampoo::cpu_backend({.threads = threads});
    accumulator_.emplace(
        *accumulation_, std::move(parameters_),
        shampoo::AccumulationOptions{.micro_batches = micro_batches_, .mean = false});
    parameters_ = accumulator_->parameters();
  }
  for (const shampoo::Parameter& parameter : parameters_)
    gradients_.push_back({.data = parameter.gradient.data,
                          .count = shampoo::grouping::numel(parameter.shape),
                          .type = parameter.gradient.type});
}

double Replica::find_gradient(double loss_scale) {
  batches_.advance();
  // average() divides by the number of ranks, which the scale therefore contains.
  const auto scale = static_cast<float>(loss_scale / batch_size * ranks_.size());
  const std::span<const float> images = batches_.images();
  const std::span<const std::uint8_t> labels = batches_.labels();
  if (accumulator_) accumulator_->clear();
  double loss = 0;
  for (int k = 0; k < micro_batches_; ++k) {
    const Share part = share(static_cast<int>(labels.size()), k, micro_batches_);
    loss += network_
                .forward_backward(images.subspan(part.first * image_size, part.count * image_size),
                                  labels.subspan(part.first, part.count), scale)
                .loss;
    if (narrow_) narrow_->round_gradients();
    if (accumulator_) accumulator_->add();
  }
  ranks_.average(gradients_);
  return loss;
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
