// SPDX-License-Identifier: Apache-2.0
#include "shampoo/transforms/update_scaling.h"

namespace shampoo {

namespace {

constexpr std::string_view field = "recipe.update_scaling.";

void check(const NoUpdateScaling&, const Checks&) {}
void check(const UpdateClipping& kind, const Checks& checks) {
  checks.positive(std::string(field) + "limit", kind.limit);
}
void check(const TrustRatio& kind, const Checks& checks) {
  checks.positive(std::string(field) + "coefficient", kind.coefficient);
  checks.positive(std::string(field) + "most", kind.most);
}

kernels::DirectionScaling scaling_of(const NoUpdateScaling&) { return {}; }
kernels::DirectionScaling scaling_of(const UpdateClipping& kind) {
  return {.rule = kernels::ScalingRule::clip, .limit = kind.limit};
}
kernels::DirectionScaling scaling_of(const TrustRatio& kind) {
  return {.rule = kernels::ScalingRule::trust, .limit = kind.coefficient, .most = kind.most};
}

}  // namespace

void check_update_scaling(const Recipe& recipe, const Checks& checks) {
  std::visit([&](const auto& kind) { check(kind, checks); }, recipe.update_scaling);
}

bool scales_updates(const Recipe& recipe) {
  return !std::holds_alternative<NoUpdateScaling>(recipe.update_scaling);
}

kernels::DirectionScaling scaling_of(const Recipe& recipe) {
  return std::visit([](const auto& kind) { return scaling_of(kind); }, recipe.update_scaling);
}

}  // namespace shampoo
