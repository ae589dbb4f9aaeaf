// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/batches.h"

#include <stdexcept>
#include <string>

#include "examples/fashion/network/layout.h"

namespace fashion {

Batches::Batches(const LabelledImages& images, const Normalisation& normalisation, int size,
                 std::uint64_t seed, Share share)
    : source_(images),
      normalisation_(normalisation),
      size_(size),
      share_(share),
      seed_(seed),
      random_(seed),
      images_(share.count * image_size),
      labels_(share.count) {
  if (source_.count() < size)
    throw std::invalid_argument("training images: there must be at least " + std::to_string(size) +
                                ", there are " + std::to_string(source_.count()));
}

void Batches::seek(int batch) {
  random_ = Random(seed_);
  handed_out_ = batch;
  const int begun = (batch + per_epoch() - 1) / per_epoch();
  for (int epoch = 0; epoch < begun; ++epoch) order_ = random_.permutation(source_.count());
}

void Batches::advance() {
  if (handed_out_++ % per_epoch() == 0) order_ = random_.permutation(source_.count());
  const int first = (handed_out_ - 1) % per_epoch() * size_ + share_.first;
  const std::span pixels(source_.pixels);
  for (int i = 0; i < share_.count; ++i) {
    const std::int64_t image = order_[first + i];
    normalisation_.apply(pixels.subspan(image * image_size, image_size),
                         images_.data() + i * image_size);
    labels_[i] = source_.labels[image];
  }
}

}  // namespace fashion
