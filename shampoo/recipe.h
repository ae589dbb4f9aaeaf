// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "grouping/box.h"
#include "kernels/solvers/solver.h"
#include "kernels/types.h"

namespace shampoo {

/// Replaces the inverse exponent of one dimension, or of all, of the blocks of one order. Later
/// entries win. Unnamed dimensions keep 1 / (2 order).
struct Exponent {
  int order = 2;                                ///< order of the block, >= 0
  std::optional<int> dimension = std::nullopt;  ///< in [0, max(order, 1)); empty: all
  double value = 0.25;  ///< the root is L^-value; >= 0; 0 leaves the dimension alone
  bool operator==(const Exponent&) const = default;
};

/// Shampoo: one Kronecker factor for every dimension of a block, and its inverse root.
struct RootInverse {
  Solver solver = Automatic{};
  std::vector<Exponent> exponents = {};
  /// Factors are divided by trace^exponent before the root; in (0, 1]; empty: they are not.
  std::optional<double> trace_scaling = std::nullopt;
  /// New statistics enter with weight 1 instead of 1 - beta2, without bias correction.
  bool drop_weighting = false;
  /// Refreshes in a row that a block may fail, its old roots kept, before step() throws; >= 0.
  int tolerated_failures = 3;
  bool operator==(const RootInverse&) const = default;
};

/// How the direction is computed.
using Preconditioner = std::variant<RootInverse>;

struct Sgd {
  bool operator==(const Sgd&) const = default;
};
struct AdaGrad {
  bool operator==(const AdaGrad&) const = default;
};
struct RmsProp {
  bool drop_weighting = false;  ///< squares enter with weight 1 instead of 1 - beta2
  bool operator==(const RmsProp&) const = default;
};
struct Adam {
  bool drop_weighting = false;  ///< as RmsProp; then without bias correction
  bool operator==(const Adam&) const = default;
};

/// Optimizers that work element by element. As grafting they read the rates grafting_beta2 and
/// grafting_epsilon, and lend each block the length of their own direction.
using Diagonal = std::variant<Sgd, AdaGrad, RmsProp, Adam>;

enum class WeightDecay : std::uint8_t {
  decoupled,   ///< decay * W joins the direction
  l2,          ///< decay * W joins the gradient
  corrected,   ///< decoupled, times learning rate / peak learning rate
  independent  ///< decoupled, divided by the peak learning rate
};

struct NoAveraging {
  bool operator==(const NoAveraging&) const = default;
};
/// B <- momentum B + (1 - dampening) P. The rates momentum and dampening.
struct Momentum {
  bool nesterov = false;
  bool operator==(const Momentum&) const = default;
};
using Averaging = std::variant<NoAveraging, Momentum>;

/// When roots are recomputed, in steps of the parameter.
struct Refresh {
  std::int64_t every = 10;                 ///< >= 1
  std::optional<std::int64_t> first = 10;  ///< >= 1; empty: never, and no factor is kept
  /// After the first refresh, spreads the blocks evenly over the steps by their cost.
  bool staggered = false;
  bool operator==(const Refresh&) const = default;
};

/// How tensors are cut into blocks.
struct Blocking {
  std::int64_t size = 1024;  ///< longest side, >= 1; grouping::never_cut
  /// Small dimensions are merged down to this order, >= 1; grouping::any_order. With 1, a matrix of
  /// up to `size` elements becomes a vector, whose one factor has as many rows as it has elements.
  int target_order = 2;
  bool operator==(const Blocking&) const = default;
};

enum class Arithmetic : std::uint8_t { float32, float64 };

/// What the owner of a block sends to the other ranks. All ranks, the owner too, apply the bytes
/// that were sent.
struct Shipping {
  /// Type of the numbers that are sent: float32 or bfloat16; the parameter's own unless set.
  std::optional<Type> type = std::nullopt;
  /// New values are sent in place of updates. Parameters of 16 bits are always sent as values,
  /// which their owner keeps in float32; for others the type must not be narrower than their own.
  bool values = false;
  bool operator==(const Shipping&) const = default;
};

/// Everything about a group that is not a rate. Groups with equal recipes are merged.
struct Recipe {
  Preconditioner preconditioner = RootInverse{};
  std::optional<Diagonal> grafting = Adam{};  ///< also the direction before the first refresh
  WeightDecay weight_decay = WeightDecay::decoupled;
  Averaging averaging = NoAveraging{};
  Refresh refresh = {};
  Blocking blocking = {};
  bool bias_correction = true;
  Arithmetic arithmetic = Arithmetic::float32;  ///< of state and computation
  Shipping shipping = {};
  bool operator==(const Recipe&) const = default;
};

struct RecipeField {
  std::string name, value;
  bool operator==(const RecipeField&) const = default;
};

/// The fields of a recipe as texts. Independent of the locale; floats are exact.
std::vector<RecipeField> fields_of(const Recipe& recipe);

/// One text for equal recipes: what grouping compares, describe() prints and hashes cover.
std::string canonical_text(const Recipe& recipe);

}  // namespace shampoo
