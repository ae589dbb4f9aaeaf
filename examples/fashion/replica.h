// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "examples/fashion/network/batches.h"
#include "examples/fashion/network/narrow_tensors.h"
#include "examples/fashion/network/network.h"
#include "examples/fashion/network/share.h"
#include "shampoo/distributor/communicator.h"
#include "shampoo/gradients.h"

namespace fashion {

/// Images of a batch, those of all ranks together.
inline constexpr int batch_size = 256;

/// How gradients come about.
struct Numerics {
  Precision precision = Precision::fp32;  ///< of the values and gradients that are trained
  int micro_batches = 1;                  ///< of each rank's share of a batch, >= 1
};

/// One rank's copy of the network. Each rank takes its share of every batch and of the test images;
/// batches and first weights depend on the seed alone. Borrows the ranks and the images.
class Replica {
 public:
  /// `threads` are those of this rank. Throws std::invalid_argument for more ranks than images in
  /// a batch, and for more micro-batches than images of a rank.
  Replica(shampoo::Communicator& ranks, const Dataset& dataset, const Normalisation& normalisation,
          int threads, std::uint64_t seed, const Numerics& numerics = {});

  Network<float>& network() { return network_; }
  /// What an optimizer trains: the network's tensors, or their 16-bit values; gradients in 16 bits,
  /// or float32 sums of micro-batches.
  const std::vector<shampoo::Parameter>& parameters() const { return parameters_; }
  /// The network computes with the values that the parameters have now.
  void read_values() {
    if (narrow_) narrow_->widen_values();
  }
  /// The other way round.
  void write_values() {
    if (narrow_) narrow_->round_values();
  }
  int steps_per_epoch() const { return batches_.per_epoch(); }

  /// find_gradient() goes on with batch `batch`, counted over all epochs from 0.
  void seek(int batch) { batches_.seek(batch); }

  /// Takes the next batch and writes the gradient of its mean loss times `loss_scale`, the same on
  /// all ranks. Returns the sum of the losses of this rank's images. Collective.
  double find_gradient(double loss_scale = 1);

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
  const int micro_batches_;
  std::optional<NarrowTensors> narrow_;             ///< empty: fp32
  std::unique_ptr<shampoo::Backend> accumulation_;  ///< null: one micro-batch
  std::optional<shampoo::GradientAccumulator> accumulator_;
  std::vector<shampoo::Parameter> parameters_;
  std::vector<shampoo::TensorSpan> gradients_;
  std::vector<float> test_batch_;
};

}  // namespace fashion
