// SPDX-License-Identifier: Apache-2.0
#include "shampoo/transforms/projection.h"

#include <cmath>
#include <limits>

#include "grouping/number_text.h"
#include "shampoo/averaging/averaging.h"
#include "shampoo/averaging/value_averaging.h"

namespace shampoo {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void check(const NoProjection&, const Checks&) {}
void check(const UnitNorm&, const Checks&) {}
void check(const Bounds& bounds, const Checks& checks) {
  const double lower = bounds.lower.value_or(-infinity), upper = bounds.upper.value_or(infinity);
  checks.require(!std::isnan(lower) && lower < infinity, "recipe.projection.lower",
                 "a number, or none", lower);
  checks.require(upper >= lower && upper > -infinity, "recipe.projection.upper",
                 "at least recipe.projection.lower, or none", upper);
}

double largest_number(Type type) {
  switch (type) {
    case Type::float64:
      return std::numeric_limits<double>::max();
    case Type::float32:
      return std::numeric_limits<float>::max();
    case Type::bfloat16:
      return 0x1.fep127;
    case Type::float16:
      return 65504;
  }
  return infinity;
}

/// Why no number of this type is within the bounds; empty: one is.
std::string bounds_fault(const Bounds& bounds, Type type) {
  const double largest = largest_number(type);
  const auto fault = [&](const char* range, double limit, const char* which, double found) {
    return "recipe.projection." + std::string(range) + " " + grouping::exact_text(limit) +
           ", the " + which + " " + std::string(name_of(type)) + ", or none, got " +
           grouping::exact_text(found);
  };
  if (bounds.lower > largest)
    return fault("lower must be at most", largest, "largest", *bounds.lower);
  if (bounds.upper && *bounds.upper < -largest)
    return fault("upper must be at least", -largest, "least", *bounds.upper);
  return {};
}

kernels::ValueProjection projection_of(const NoProjection&) { return {}; }
kernels::ValueProjection projection_of(const Bounds& bounds) {
  return {.rule = kernels::ProjectionRule::bounds,
          .lower = bounds.lower.value_or(-infinity),
          .upper = bounds.upper.value_or(infinity)};
}
kernels::ValueProjection projection_of(const UnitNorm&) {
  return {.rule = kernels::ProjectionRule::unit_norm};
}

}  // namespace

void check_projection(const Recipe& recipe, const Checks& checks) {
  if (std::holds_alternative<NoProjection>(recipe.projection)) return;
  const std::string_view name =
      std::visit([]<typename Kind>(const Kind&) { return Kind::name; }, recipe.projection);
  // W + (projected - W), rounded, need not be in the set.
  checks.require(recipe.communication.values, "recipe.communication.values",
                 "true with a projection, which sends new values", std::string_view("false"));
  checks.require(!averages_iterate(recipe), "recipe.projection",
                 "none with an averaging of iterates, whose steps it would not reach", name);
  checks.require(!replaces_values(recipe), "recipe.projection",
                 "none with lookahead, which replaces projected values", name);
  std::visit([&](const auto& kind) { check(kind, checks); }, recipe.projection);
}

std::string projection_fault(const Recipe& recipe, std::size_t blocks, Type value_type) {
  if (const auto* const bounds = std::get_if<Bounds>(&recipe.projection))
    return bounds_fault(*bounds, value_type);
  if (!projects_by_norm(recipe) || blocks <= 1) return {};
  return "recipe.projection: unit_norm needs a parameter in one block, but it is cut into " +
         std::to_string(blocks) + "; see recipe.blocking.size";
}

bool projects_by_norm(const Recipe& recipe) {
  return std::holds_alternative<UnitNorm>(recipe.projection);
}

kernels::ValueProjection projection_of(const Recipe& recipe) {
  return std::visit([](const auto& kind) { return projection_of(kind); }, recipe.projection);
}

}  // namespace shampoo
