// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/kullback_leibler.h"

#include "shampoo/preconditioners/eigendecomposed.h"
#include "shampoo/preconditioners/root_inverse.h"

namespace shampoo {

void check(const KullbackLeibler& kind, const Recipe& recipe, const Checks& checks) {
  const Checks inner = checks.within("form");
  std::visit([&](const auto& form) { check(form, recipe, inner); }, kind.form);
}

bool has_refresh(const KullbackLeibler&, const Recipe&) { return true; }

bool acts_before_refresh(const KullbackLeibler& kind, const Recipe& recipe) {
  return std::visit([&](const auto& form) { return acts_before_refresh(form, recipe); }, kind.form);
}

bool acts_on(const KullbackLeibler& kind, std::span<const std::int64_t> extent) {
  return std::visit([&](const auto& form) { return acts_on(form, extent); }, kind.form);
}

bool is_blockwise(const KullbackLeibler& kind, const Recipe& recipe) {
  return std::visit([&](const auto& form) { return is_blockwise(form, recipe); }, kind.form);
}

std::span<const RateUse> rates(const KullbackLeibler& kind, const Recipe& recipe, Role role) {
  return std::visit([&](const auto& form) { return rates(form, recipe, role); }, kind.form);
}

std::vector<Slot> slots(const KullbackLeibler& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role role) {
  return std::visit([&](const auto& form) { return slots(form, recipe, extent, role); }, kind.form);
}

PreconditionerWork work(const KullbackLeibler& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent) {
  PreconditionerWork cost =
      std::visit([&](const auto& form) { return work(form, recipe, extent); }, kind.form);
  if (!recipe.refresh.first) return cost;
  // G x_j R_j for every pair of dimensions
  const std::int64_t elements = grouping::numel(extent);
  for (const std::int64_t side : extent)
    cost.factors += product_work(elements, side) * (std::ssize(extent) - 1);
  return cost;
}

std::unique_ptr<GroupPreconditioner> make(const KullbackLeibler& kind,
                                          const PreconditionerContext& context, Role) {
  const Statistic statistic = kind.normalize ? Statistic::whitened_normalized : Statistic::whitened;
  return std::visit([&](const auto& form) { return make_with(statistic, form, context); },
                    kind.form);
}

}  // namespace shampoo
