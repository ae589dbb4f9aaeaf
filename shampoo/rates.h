// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace shampoo {

/// Floating-point hyperparameters of a group. Groups that differ only here are merged. Live: read
/// and validated at every step.
struct Rates {
  double learning_rate = 1e-3;  ///< >= 0
  double beta1 = 0.9;           ///< decay of the filtered gradient, in [0, 1)
  double beta2 = 0.999;         ///< decay of the factors, in [0, 1]; 1 sums as AdaGrad does
  double epsilon = 1e-8;        ///< added to the factors, > 0; 0 for a pseudo-inverse
  double weight_decay = 0;      ///< >= 0
  std::optional<double> beta3 =
      std::nullopt;  ///< weight of the newest gradient is 1 - beta3, in [0, 1); beta1 unless set
  /// > 0, for corrected and independent decay; the learning rate at construction unless set.
  std::optional<double> peak_learning_rate = std::nullopt;
  double grafting_beta2 = 0.999;   ///< in [0, 1]
  double grafting_epsilon = 1e-8;  ///< > 0
  double momentum = 0;             ///< read by Momentum; in [0, 1)
  double dampening = 0;            ///< read by Momentum; in [0, 1)

  bool operator==(const Rates&) const = default;
};

}  // namespace shampoo
