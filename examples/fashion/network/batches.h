// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/fashion/network/dataset.h"
#include "examples/fashion/network/share.h"
#include "examples/fashion/random.h"

namespace fashion {

/// Hands out one share of each batch of images: in a new random order for every epoch, without the
/// few that do not fill a batch. The order depends on the seed alone. Borrows the images.
class Batches {
 public:
  /// Throws std::invalid_argument unless there are at least `size` images. `share` is of a batch.
  Batches(const LabelledImages& images, const Normalisation& normalisation, int size,
          std::uint64_t seed, Share share);

  int per_epoch() const { return source_.count() / size_; }

  /// The next advance() gives the share of batch `batch`, counted over all epochs from 0.
  void seek(int batch);

  /// Makes images() and labels() the share of the next batch.
  void advance();

  std::span<const float> images() const { return images_; }
  std::span<const std::uint8_t> labels() const { return labels_; }

 private:
  const LabelledImages& source_;
  const Normalisation& normalisation_;
  int size_;
  Share share_;
  int handed_out_ = 0;
  std::uint64_t seed_;
  Random random_;
  std::vector<int> order_;
  std::vector<float> images_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace fashion
