// SPDX-License-Identifier: Apache-2.0
#include "shampoo/validation/validate_recipe.h"

#include <algorithm>
#include <cmath>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

#include "kernels/solvers/rational.h"

namespace shampoo {

namespace {

/// Checks the fields of one group.
class Fields {
 public:
  explicit Fields(int group) : group_(group) {}

  template <typename Value>
  void require(bool holds, const char* field, const char* range, const Value& found) const {
    if (!holds) fail(field, range, found);
  }

  void at_least_zero(const char* field, double value) const {
    require(value >= 0 && std::isfinite(value), field, "in [0, inf)", value);
  }
  void positive(const char* field, double value) const {
    require(value > 0 && std::isfinite(value), field, "in (0, inf)", value);
  }
  void unit_open(const char* field, double value) const {
    require(value >= 0 && value < 1, field, "in [0, 1)", value);
  }
  void unit_closed(const char* field, double value) const {
    require(value >= 0 && value <= 1, field, "in [0, 1]", value);
  }

 private:
  template <typename Value>
  [[noreturn]] void fail(const char* field, const char* range, const Value& found) const {
    std::ostringstream message;
    message.imbue(std::locale::classic());
    message << "group " << group_ << ": " << field << " must be " << range << ", got " << found;
    throw std::invalid_argument(message.str());
  }

  int group_;
};

const PseudoInverse* pseudo_inverse_of(const Recipe& recipe) {
  const auto* root = std::get_if<RootInverse>(&recipe.preconditioner);
  const auto* eigen = root ? std::get_if<Eigen>(&root->solver) : nullptr;
  return eigen && eigen->pseudo_inverse ? &*eigen->pseudo_inverse : nullptr;
}

struct SolverFields {
  const Fields& fields;
  Arithmetic arithmetic;

  void operator()(const Automatic&) const {}
  void operator()(const Eigen& s) const {
    fields.unit_open("recipe.solver.relative_floor", s.relative_floor);
    if (!s.pseudo_inverse) return;
    if (s.pseudo_inverse->relative_tolerance)
      fields.unit_closed("recipe.solver.pseudo_inverse.relative_tolerance",
                         *s.pseudo_inverse->relative_tolerance);
    fields.at_least_zero("recipe.solver.pseudo_inverse.absolute_tolerance",
                         s.pseudo_inverse->absolute_tolerance);
    fields.require(s.relative_floor == 0, "recipe.solver.relative_floor", "0 with a pseudo-inverse",
                   s.relative_floor);
  }
  void operator()(const CoupledNewton& s) const {
    fields.require(s.max_iterations >= 0, "recipe.solver.max_iterations", ">= 0", s.max_iterations);
    fields.at_least_zero("recipe.solver.tolerance", s.tolerance);
  }
  void operator()(const CoupledHigherOrder& s) const {
    fields.require(s.max_iterations >= 0, "recipe.solver.max_iterations", ">= 0", s.max_iterations);
    fields.at_least_zero("recipe.solver.tolerance", s.tolerance);
    fields.require(s.order >= 2, "recipe.solver.order", ">= 2", s.order);
    fields.at_least_zero("recipe.solver.relative_epsilon", s.relative_epsilon);
    fields.at_least_zero("recipe.solver.absolute_epsilon", s.absolute_epsilon);
    fields.require(s.relative_epsilon > 0 || s.absolute_epsilon > 0,
                   "recipe.solver.absolute_epsilon", "> 0 where relative_epsilon is 0",
                   s.absolute_epsilon);
  }
  void operator()(const Minimax& s) const {
    const bool narrow = arithmetic == Arithmetic::float32;
    fields.require(s.kappa_max >= 10 && s.kappa_max <= (narrow ? 1e7 : 1e12),
                   "recipe.solver.kappa_max",
                   narrow ? "in [10, 1e7] in float32" : "in [10, 1e12] in float64", s.kappa_max);
    fields.require(
        s.precision == MinimaxPrecision::mixed || s.precision == MinimaxPrecision::accurate,
        "recipe.solver.precision", "mixed or accurate", static_cast<int>(s.precision));
  }
};

void validate_exponent(double exponent, const Solver& solver, const Fields& fields) {
  fields.at_least_zero("recipe.exponents.value", exponent);
  if (exponent == 0) return;
  const auto root = kernels::rational(1 / exponent);
  const auto require = [&](bool holds, const char* range) {
    fields.require(holds, "recipe.exponents.value", range, exponent);
  };
  if (std::holds_alternative<CoupledNewton>(solver))
    require(root && root->q == 1, "1 / p with an integer p for the coupled Newton iteration");
  if (std::holds_alternative<CoupledHigherOrder>(solver))
    require(root.has_value(), "q / p with integers, q <= 64, for the coupled iteration");
  if (std::holds_alternative<Minimax>(solver))
    require(kernels::minimax_root(exponent).has_value(),
            "q / p with integers q <= 4, p <= 64, at most 1, for the minimax solver");
}

void validate_root_inverse(const RootInverse& p, Arithmetic arithmetic, const Fields& fields) {
  std::visit(SolverFields{fields, arithmetic}, p.solver);
  for (const Exponent& e : p.exponents) {
    fields.require(e.order >= 0, "recipe.exponents.order", ">= 0", e.order);
    if (e.dimension)
      fields.require(*e.dimension >= 0 && *e.dimension < std::max(e.order, 1),
                     "recipe.exponents.dimension", "in [0, max(order, 1))", *e.dimension);
    validate_exponent(e.value, p.solver, fields);
  }
  if (p.trace_scaling)
    fields.require(*p.trace_scaling > 0 && *p.trace_scaling <= 1, "recipe.trace_scaling",
                   "in (0, 1]", *p.trace_scaling);
  fields.require(p.tolerated_failures >= 0, "recipe.tolerated_failures", ">= 0",
                 p.tolerated_failures);
}

bool weighs_by_beta2(const Diagonal& grafting) {
  if (const auto* rmsprop = std::get_if<RmsProp>(&grafting)) return !rmsprop->drop_weighting;
  if (const auto* adam = std::get_if<Adam>(&grafting)) return !adam->drop_weighting;
  return false;
}

}  // namespace

void validate_recipe(const Recipe& recipe, int group) {
  const Fields fields(group);
  validate_root_inverse(std::get<RootInverse>(recipe.preconditioner), recipe.arithmetic, fields);
  fields.require(recipe.refresh.every >= 1, "recipe.refresh.every", ">= 1", recipe.refresh.every);
  if (recipe.refresh.first)
    fields.require(*recipe.refresh.first >= 1, "recipe.refresh.first", ">= 1, or empty for never",
                   *recipe.refresh.first);
  fields.require(recipe.blocking.size >= 1, "recipe.blocking.size", ">= 1", recipe.blocking.size);
  if (const std::optional<Type>& type = recipe.shipping.type)
    fields.require(*type == Type::float32 || *type == Type::bfloat16, "recipe.shipping.type",
                   "float32 or bfloat16, or empty", name_of(*type));
  fields.require(recipe.blocking.target_order >= 1, "recipe.blocking.target_order", ">= 1",
                 recipe.blocking.target_order);
}

void validate_rates(const Rates& rates, const Recipe& recipe, int group) {
  const Fields fields(group);
  fields.at_least_zero("learning_rate", rates.learning_rate);
  fields.unit_open("beta1", rates.beta1);
  fields.unit_closed("beta2", rates.beta2);
  if (rates.beta3) fields.unit_open("beta3", *rates.beta3);
  fields.at_least_zero("weight_decay", rates.weight_decay);
  if (pseudo_inverse_of(recipe))
    fields.require(rates.epsilon == 0, "epsilon", "0 with a pseudo-inverse", rates.epsilon);
  else
    fields.positive("epsilon", rates.epsilon);
  if (rates.peak_learning_rate || recipe.weight_decay == WeightDecay::corrected ||
      recipe.weight_decay == WeightDecay::independent)
    fields.positive("peak_learning_rate", rates.peak_learning_rate.value_or(rates.learning_rate));
  if (recipe.grafting && weighs_by_beta2(*recipe.grafting))
    fields.unit_open("grafting_beta2", rates.grafting_beta2);
  else
    fields.unit_closed("grafting_beta2", rates.grafting_beta2);
  fields.positive("grafting_epsilon", rates.grafting_epsilon);
  fields.unit_open("momentum", rates.momentum);
  fields.unit_open("dampening", rates.dampening);
}

void validate_options(const OptimizerOptions& options) {
  if (options.skipped_in_a_row < 1)
    throw std::invalid_argument("options: skipped_in_a_row must be >= 1, got " +
                                std::to_string(options.skipped_in_a_row));
}

}  // namespace shampoo
