// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shampoo {

/// Floating-point hyperparameters of a group. Groups that differ only here are merged. Live: read
/// and validated at every step. A rate that the group's recipe does not read must keep its default;
/// the error names the rate to set instead. All are finite in the recipe's arithmetic.
struct Rates {
  double learning_rate = 1e-3;  ///< >= 0
  /// Decay of the first moment (betas[0] of torch), in [0, 1); 0: F = G. Needs Recipe::filter.
  double beta1 = 0.9;
  /// Decay of the preconditioner's statistics (betas[1] of torch for Adam), in [0, 1], where 1 sums
  /// as AdaGrad does; in [0, 1) for RmsProp and Adam unless drop_weighting.
  double beta2 = 0.999;
  /// Damping, >= 2^-126: added to factors by kinds with some, to sqrt(V) by diagonal kinds and
  /// EigenvalueCorrected. 0 with a PseudoInverse.
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< >= 0; see Recipe::weight_decay
  /// Decay used for the update direction, in [0, 1): F = beta3 M + (1 - beta3) G. beta1 unless set;
  /// beta1^2 is Nesterov's momentum for Spectral.
  std::optional<double> beta3 = std::nullopt;
  /// > 0, for corrected and independent decay; the learning rate at construction unless set.
  std::optional<double> peak_learning_rate = std::nullopt;
  double grafting_beta2 = 0.999;   ///< beta2 of the grafting, same ranges
  double grafting_epsilon = 1e-8;  ///< epsilon of the grafting, >= 2^-126
  /// Decay of the momentum buffer, in [0, 1); needs the averaging Momentum.
  double momentum = 0;
  /// The direction enters the momentum buffer with weight 1 - dampening, in [0, 1); needs the
  /// averaging Momentum.
  double dampening = 0;
  /// >= 0; AdaGrad as a preconditioner steps by learning_rate / (1 + (t - 1) learning_rate_decay)
  /// in the t-th step of a parameter (torch: lr_decay).
  double learning_rate_decay = 0;
  /// mu_y, weight of the evaluation point X in the point W = mu_y X + (1 - mu_y) Z at which
  /// gradients are taken, in (0, 1]; needs the averaging PrimalAveraging or ScheduleFree.
  double train_interpolation = 0.8;
  /// mu_x, weight with which X is kept in X <- mu_x X + (1 - mu_x) Z, in [0, 1); needs the
  /// averaging PrimalAveraging.
  double evaluation_interpolation = 0.9;

  bool operator==(const Rates&) const = default;
};

/// Calls visit(name, value) for every rate; values are double or std::optional<double>.
template <typename Visitor, typename Self>
requires std::same_as<std::remove_const_t<Self>, Rates>
constexpr void for_each_field(Visitor&& visit, Self& rates) {
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
  visit("learning_rate_decay", rates.learning_rate_decay);
  visit("train_interpolation", rates.train_interpolation);
  visit("evaluation_interpolation", rates.evaluation_interpolation);
}
static_assert(sizeof(Rates) == 16 * sizeof(double), "a rate is missing in for_each_field()");

/// A rate without a value is unset, or NaN where it must have one.
inline void assign(double& rate, const std::optional<double>& value) {
  rate = value.value_or(std::numeric_limits<double>::quiet_NaN());
}
inline void assign(std::optional<double>& rate, const std::optional<double>& value) {
  rate = value;
}

/// One field of Rates: &Rates::learning_rate, or "learning_rate".
class RateField {
 public:
  RateField(double Rates::*field);
  RateField(std::optional<double> Rates::*field);
  /// Throws std::invalid_argument, which lists all rates, for another name.
  RateField(std::string_view name);
  RateField(const char* name) : RateField(std::string_view(name)) {}

  std::string_view name() const { return name_; }
  /// Empty where it is not set.
  std::optional<double> of(const Rates& rates) const;
  void set(Rates& rates, const std::optional<double>& value) const;  ///< by assign()

 private:
  std::string_view name_;  ///< of the library's own
};

/// A rate that one parameter of a group has for itself.
struct OwnRate {
  std::size_t parameter = 0;   ///< index in the group
  std::string_view rate = {};  ///< RateField::name()
  double value = 0;

  bool operator==(const OwnRate&) const = default;
};

/// All rates of a group.
struct GroupRates {
  Rates rates = {};
  std::vector<OwnRate> own = {};  ///< by parameter and name, no two of the same

  bool operator==(const GroupRates&) const = default;
};

}  // namespace shampoo
