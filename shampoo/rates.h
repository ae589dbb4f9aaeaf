// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>

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

/// Calls visit(name, value) for every rate; values are double or std::optional<double>.
template <typename Visitor, typename Self>
requires std::same_as<std::remove_const_t<Self>, Rates>
void for_each_field(Visitor&& visit, Self& rates) {
  visit("learning_rate", rates.learning_rate);
  visit("beta1", rates.beta1);
  visit("beta2", rates.beta2);
  visit("epsilon", rates.epsilon);
  visit("weight_decay", rates.weight_decay);
  visit("beta3", rates.beta3);
  visit("peak_learning_rate", rates.peak_learning_rate);
  visit("grafting_beta2", rates.grafting_beta2);
  visit("grafting_epsilon", rates.grafting_epsilon);
  visit("momentum", rates.momentum);
  visit("dampening", rates.dampening);
}
static_assert(sizeof(Rates) == 13 * sizeof(double), "a rate is missing in for_each_field()");

}  // namespace shampoo
