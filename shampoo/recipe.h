// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shampoo/grouping/box.h"
#include "shampoo/kernels/types.h"
#include "shampoo/preconditioners.h"

/// Every struct of options has a `name` and calls visit(name, field) for its fields in
/// for_each_field(visit, self): texts and hashes of recipes come from that.
namespace shampoo {

enum class WeightDecay : std::uint8_t {
  decoupled,    ///< W <- W - lr wd W, as torch.optim.AdamW [Loshchilov 2019]
  l2,           ///< G <- G + wd W, as torch.optim.Adam
  corrected,    ///< W <- W - lr^2 wd / peak W, with the rate peak_learning_rate [Defazio 2025a]
  independent,  ///< W <- W - lr wd / peak W [Loshchilov 2019, Algorithm 2]
  plain         ///< W <- W - wd W, whatever the learning rate is, unless that is 0
};

struct NoAveraging {
  static constexpr std::string_view name = "none";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const NoAveraging&) const = default;
};
/// B <- momentum B + (1 - dampening) P ; P = B, or (1 - dampening) P + momentum B with nesterov
/// [Polyak 1964; Sutskever 2013]. Where momentum is 0, B and P are left alone. Reads the rates
/// momentum and dampening.
struct Momentum {
  static constexpr std::string_view name = "momentum";
  bool nesterov = false;
  /// The first step of a parameter gives B = P, as torch.optim.SGD, instead of (1 - dampening) P,
  /// if momentum is not 0 then.
  bool undamped_start = false;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("nesterov", self.nesterov);
    visit("undamped_start", self.undamped_start);
  }
  bool operator==(const Momentum&) const = default;
};
/// Averages an iterate Z, which takes the steps: X <- mu_x X + (1 - mu_x) Z, with gradients at
/// W = mu_y X + (1 - mu_y) Z [Defazio 2025b]. W is the parameter's value while training, and
/// Optimizer::evaluate() puts X in its place. Decoupled decay shrinks Z. Reads the rates
/// evaluation_interpolation (mu_x) and train_interpolation (mu_y).
struct PrimalAveraging {
  static constexpr std::string_view name = "primal_averaging";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const PrimalAveraging&) const = default;
};
/// The same with X the average of all Z, each with the weight learning_rate^power
/// [Defazio 2024, Algorithm 1 and (23)]: needs no learning rate schedule but a warmup. Reads the
/// rate train_interpolation.
struct ScheduleFree {
  static constexpr std::string_view name = "schedule_free";
  double power = 2;  ///< >= 0; 0 weighs all steps alike
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("power", self.power);
  }
  bool operator==(const ScheduleFree&) const = default;
};
using Averaging = std::variant<NoAveraging, Momentum, PrimalAveraging, ScheduleFree>;

struct NoValueAverage {
  static constexpr std::string_view name = "none";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const NoValueAverage&) const = default;
};
/// A <- decay A + (1 - decay) W, from the step `start` + `every` of a parameter on in every so many
/// steps; A = W up to the step `start` [Polyak 1992].
struct ExponentialAverage {
  static constexpr std::string_view name = "exponential";
  double decay = 0.999;    ///< in [0, 1)
  std::int64_t every = 1;  ///< >= 1
  std::int64_t start = 0;  ///< >= 0
  /// The n-th W enters with the weight (1 - decay) / (1 - decay^n): A is the mean of what has
  /// entered, and the value at `start` is not part of it.
  bool debias = false;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("decay", self.decay);
    visit("every", self.every);
    visit("start", self.start);
    visit("debias", self.debias);
  }
  bool operator==(const ExponentialAverage&) const = default;
};
/// Stochastic weight averaging: A is the mean of W after the steps `first`, `first` + `every`, ...
/// of a parameter, and W before [Izmailov 2018].
struct StochasticWeightAverage {
  static constexpr std::string_view name = "stochastic_weight";
  std::int64_t first = 1;  ///< >= 0; 0: the value before the first step
  std::int64_t every = 1;  ///< >= 1
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("first", self.first);
    visit("every", self.every);
  }
  bool operator==(const StochasticWeightAverage&) const = default;
};
/// A, the slow weights, begin as W; after every so many steps of a parameter A <- A + pull (W - A)
/// and W <- A [Zhang 2019]. Momentum goes on. Needs Communication::values.
struct Lookahead {
  static constexpr std::string_view name = "lookahead";
  std::int64_t every = 5;  ///< >= 1
  double pull = 0.5;       ///< in (0, 1]
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("every", self.every);
    visit("pull", self.pull);
  }
  bool operator==(const Lookahead&) const = default;
};
/// An average A of the values W that steps leave, kept by their owner in float32, or float64 with
/// that arithmetic. Optimizer::evaluate() puts it in place. A skipped step and an absent gradient
/// leave it alone. Not with an averaging of iterates, which has evaluation values of its own.
using ValueAveraging =
    std::variant<NoValueAverage, ExponentialAverage, StochasticWeightAverage, Lookahead>;

struct NoProjection {
  static constexpr std::string_view name = "none";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const NoProjection&) const = default;
};
/// W <- min(max(W, lower), upper). The type of the values must have a number >= lower and one <=
/// upper.
struct Bounds {
  static constexpr std::string_view name = "bounds";
  std::optional<double> lower = 0;             ///< empty: none
  std::optional<double> upper = std::nullopt;  ///< >= lower; empty: none
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("lower", self.lower);
    visit("upper", self.upper);
  }
  bool operator==(const Bounds&) const = default;
};
/// W <- W / |W|, with the norm of the whole parameter, which must be one block; W where that is 0.
struct UnitNorm {
  static constexpr std::string_view name = "unit_norm";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const UnitNorm&) const = default;
};
/// Projection of the values that a step leaves, by their owner, before they join their average, in
/// the type of the master or the value: then they are rounded as ever. Steps that are skipped and
/// absent gradients leave values alone. Needs Communication::values; not with averages that replace
/// values or averagings of iterates.
using Projection = std::variant<NoProjection, Bounds, UnitNorm>;

/// When roots are recomputed, in steps of the parameter. Before `first` the direction is that of
/// the grafting, also under kinds that have no roots. Without grafting it is F, or, for kinds with
/// eigenbases, what they give with the bases that they have, at first the identity:
/// EigenvalueCorrected is then Adam; kinds that have nothing to refresh then act from step 1 on.
struct Refresh {
  static constexpr std::string_view name = "refresh";
  std::int64_t every = 10;                 ///< >= 1
  std::optional<std::int64_t> first = 10;  ///< >= 1; empty: never, and no factor is kept
  /// Spreads the blocks over the steps of an interval, so that steps take equally long: a block is
  /// refreshed whenever step + phase is a multiple of `every`, from step first - every + 1 on; what
  /// has had no turn by `first` is refreshed then. Phases, in [0, every), level the work of the
  /// steps on any number of ranks; they follow from the costs, names and blocks of the optimizer's
  /// parameters, not from ranks, groups or their order. Off: all blocks at `first` and at the
  /// multiples of `every` after it, which takes less time in all where ranks have fewer than
  /// `every` blocks each, and lets steps without a refresh be captured in a graph.
  bool staggered = true;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("every", self.every);
    visit("first", self.first);
    visit("staggered", self.staggered);
  }
  bool operator==(const Refresh&) const = default;
};

/// How tensors are cut into blocks.
struct Blocking {
  static constexpr std::string_view name = "blocking";
  /// Longest side, >= 1; grouping::never_cut. One with a factor or a basis has at most 32,000, for
  /// Svd 16,000.
  std::int64_t size = 1024;
  /// Small dimensions are merged down to this order, >= 1; grouping::any_order. With 1, a matrix of
  /// up to `size` elements becomes a vector, whose one factor has as many rows as it has elements,
  /// or which recipes::soap() leaves to Adam.
  int target_order = 2;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("size", self.size);
    visit("target_order", self.target_order);
  }
  bool operator==(const Blocking&) const = default;
};

enum class Arithmetic : std::uint8_t { float32, float64 };

/// Wire format of a step: what the owner of a block sends. Every rank, the owner included, applies
/// the received bytes.
struct Communication {
  static constexpr std::string_view name = "communication";
  /// Type of the numbers that are sent: float32 or bfloat16; the parameter's own unless set, and
  /// for float16 instead of bfloat16.
  std::optional<Type> type = std::nullopt;
  /// New values are sent instead of updates. Parameters of 16 bits are always sent as values,
  /// which their owner keeps in float32; for others the type must not be narrower than their own,
  /// and float64 values need float64 arithmetic.
  bool values = false;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("type", self.type);
    visit("values", self.values);
  }
  bool operator==(const Communication&) const = default;
};

/// Everything about a group that is not a rate. Groups with equal recipes are merged.
struct Recipe {
  static constexpr std::string_view name = "recipe";
  Preconditioner preconditioner = RootInverse{};
  /// Its direction's norm scales that of the preconditioner [Agarwal 2020]; it is also the
  /// direction before the first refresh. Must differ from the preconditioner: empty for plain Adam.
  std::optional<Diagonal> grafting = Adam{};
  WeightDecay weight_decay = WeightDecay::decoupled;
  Averaging averaging = NoAveraging{};
  Refresh refresh = {};
  Blocking blocking = {};
  /// Divides the filtered gradient and the factors by their bias corrections. The second moment of
  /// Adam is always corrected.
  bool bias_correction = true;
  Arithmetic arithmetic = Arithmetic::float32;  ///< type of state and computation
  Communication communication = {};
  bool maximize = false;  ///< G <- -G as it is read, before L2 decay is added
  bool filter = true;     ///< false: F = G, no first moment is kept, beta1 and beta3 are not read
  ValueAveraging value_averaging = NoValueAverage{};
  UpdateScaling update_scaling = NoUpdateScaling{};
  Projection projection = NoProjection{};
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("preconditioner", self.preconditioner);
    visit("grafting", self.grafting);
    visit("weight_decay", self.weight_decay);
    visit("averaging", self.averaging);
    visit("refresh", self.refresh);
    visit("blocking", self.blocking);
    visit("bias_correction", self.bias_correction);
    visit("arithmetic", self.arithmetic);
    visit("communication", self.communication);
    visit("maximize", self.maximize);
    visit("filter", self.filter);
    visit("value_averaging", self.value_averaging);
    visit("update_scaling", self.update_scaling);
    visit("projection", self.projection);
  }
  bool operator==(const Recipe&) const = default;
};

struct RecipeField {
  std::string name, value;
  bool operator==(const RecipeField&) const = default;
};

/// The fields of a recipe as texts, fields of kinds and options behind the name of theirs:
/// "preconditioner" is "root_inverse", "preconditioner.solver" is "eigen",
/// "preconditioner.solver.relative_floor" is "0". Independent of the locale; floats are exact.
std::vector<RecipeField> fields_of(const Recipe& recipe);

/// Inverse of fields_of(). Fields that are not given are those of `base`, those of another kind at
/// their defaults. Throws std::invalid_argument with a line for each unknown field, with those that
/// there are, and each value that cannot be read, with those that are accepted. Ranges are checked
/// when an optimizer is constructed.
Recipe recipe_from(std::span<const RecipeField> fields, const Recipe& base = {});

/// One text for equal recipes: what grouping compares, describe() prints and hashes cover.
std::string canonical_text(const Recipe& recipe);

/// Inverse of canonical_text(). Fields that are left out are at their defaults:
/// "recipe(refresh=refresh(every=20))". Throws std::invalid_argument with the place of a text that
/// is none, and as recipe_from() does for fields and values.
Recipe recipe_from_text(std::string_view canonical);

}  // namespace shampoo
