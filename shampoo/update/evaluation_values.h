// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "shampoo/update/engine.h"

namespace shampoo {

/// Segments of an exchange of whole values, in their own types, for groups whose recipe averages
/// iterates or values.
grouping::Segments value_segments_of(grouping::Plan plan, std::span<const Group* const> groups);

/// The switch of an engine's parameters to their evaluation values and back. Between the calls
/// comes a run of Engine::value_exchange(), which the engine must have. Keeps the training values
/// of the blocks that this rank owns, in their own types, so that they come back bit for bit.
class EvaluationValues {
 public:
  /// `engine` must outlive this object.
  EvaluationValues(kernels::Backend& backend, const Engine& engine);

  /// This rank's segment <- X = W + (1 - 1 / mu_y) (Z - W), with the present rates, or the average
  /// of values A. Keeps the training values. Queued.
  void compute();
  /// This rank's segment <- the training values. Queued.
  void recall();
  /// Values <- the segments of all ranks. Queued.
  void assign();

  std::int64_t bytes() const;

 private:
  /// This rank's blocks of a virtual group.
  struct OwnBlocks {
    const GroupStep* group;
    ElementTable table = {};
    std::vector<double> factors = {};  ///< 1 - 1 / mu_y per block
    kernels::Buffer extrapolations = {};
  };

  void append_group(int v);
  void upload();
  char* segments() const;     ///< [backend] of all ranks
  char* own_segment() const;  ///< [backend] the data of this rank's

  kernels::Backend& backend_;
  const Engine& engine_;
  std::vector<OwnBlocks> own_;
  ElementTable all_;                  ///< blocks of all ranks
  std::vector<kernels::Mode> modes_;  ///< of all_: none is absent
  std::int32_t proceed_ = 1;
  kernels::Buffer sent_modes_, sent_proceed_;
  kernels::Buffer training_values_;  ///< the data of this rank's segment
  kernels::Buffer own_segments_;     ///< on one rank, which has no exchange
  kernels::Settled settled_;
};

}  // namespace shampoo
