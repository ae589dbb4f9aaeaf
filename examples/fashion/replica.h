// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/fashion/network/batches.h"
#include "examples/fashion/network/network.h"
#include "examples/fashion/network/share.h"
#include "shampoo/distributor/communicator.h"

namespace fashion {

/// Images of a batch, those of all ranks together.
inline constexpr int batch_size = 256;

/// One rank's copy of the network. Each rank takes its share of every batch and of the test images;
/// batches and first weights depend on the seed alone. Borrows the ranks and the images.
class Replica {
 public:
  /// `threads` are those of this rank. Throws std::invalid_argument for more ranks than images in
  /// a batch.
  Replica(shampoo::Communicator& ranks, const Dataset& dataset, const Normalisation& normalisation,
          int threads, std::uint64_t seed);

  Network<float>& network() { return network_; }
  int steps_per_epoch() const { return batches_.per_epoch(); }

  /// find_gradient() goes on with batch `batch`, counted over all epochs from 0.
  void seek(int batch) { batches_.seek(batch); }

  /// Takes the next batch and writes the gradient of its mean loss, the same on all ranks. Returns
  /// the sum of the losses of this rank's images. Collective.
  double find_gradient();

  /// Percent of the test images that are put in the right class. Collective.
  double test_accuracy();

 private:
  int own_correct();

  shampoo::Communicator& ranks_;
  Share share_;  ///< of a batch
  const LabelledImages& test_;
  const Normalisation& normalisation_;
  Workers workers_;
  Network<float> network_;
  Batches batches_;
  std::vector<shampoo::TensorSpan> gradients_;
  std::vector<float> test_batch_;
};

}  // namespace fashion
