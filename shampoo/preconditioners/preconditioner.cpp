// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/preconditioner.h"

#include "shampoo/preconditioners/diagonal.h"
#include "shampoo/preconditioners/eigendecomposed.h"
#include "shampoo/preconditioners/eigenvalue_corrected.h"
#include "shampoo/preconditioners/kullback_leibler.h"
#include "shampoo/preconditioners/root_inverse.h"
#include "shampoo/preconditioners/sign.h"
#include "shampoo/preconditioners/spectral.h"

namespace shampoo {

void check_preconditioner(const Recipe& recipe, const Checks& checks) {
  const Checks inner = checks.within("recipe.preconditioner");
  std::visit([&](const auto& kind) { check(kind, recipe, inner); }, recipe.preconditioner);
}

void check_grafting(const Recipe& recipe, const Checks& checks) {
  if (!recipe.grafting) return;
  std::visit(
      [&]<typename Kind>(const Kind& kind) {
        check(kind, recipe, checks.within("recipe.grafting"));
        checks.require(!std::holds_alternative<Kind>(recipe.preconditioner), "recipe.grafting",
                       "another kind than the preconditioner, or empty", Kind::name);
      },
      *recipe.grafting);
}

std::span<const RateUse> preconditioner_rates(const Recipe& recipe) {
  return std::visit([&](const auto& kind) { return rates(kind, recipe, Role::preconditioner); },
                    recipe.preconditioner);
}

std::span<const RateUse> grafting_rates(const Recipe& recipe) {
  if (!recipe.grafting) return {};
  return std::visit([&](const auto& kind) { return rates(kind, recipe, Role::grafting); },
                    *recipe.grafting);
}

std::vector<Slot> preconditioner_slots(const Recipe& recipe, std::span<const std::int64_t> extent) {
  return std::visit(
      [&](const auto& kind) { return slots(kind, recipe, extent, Role::preconditioner); },
      recipe.preconditioner);
}

std::vector<Slot> grafting_slots(const Recipe& recipe) {
  if (!recipe.grafting) return {};
  return std::visit([&](const auto& kind) { return slots(kind, recipe, {}, Role::grafting); },
                    *recipe.grafting);
}

PreconditionerWork preconditioner_work(const Recipe& recipe, std::span<const std::int64_t> extent) {
  return std::visit([&](const auto& kind) { return work(kind, recipe, extent); },
                    recipe.preconditioner);
}

std::string block_fault(const Recipe& recipe, std::span<const std::int64_t> extent) {
  return std::visit(
      [&](const auto& kind) -> std::string {
        if constexpr (requires { block_fault(kind, extent); })
          return block_fault(kind, extent);
        else
          return {};
      },
      recipe.preconditioner);
}

bool has_refresh(const Recipe& recipe) {
  return std::visit([&](const auto& kind) { return has_refresh(kind, recipe); },
                    recipe.preconditioner);
}

bool acts_before_refresh(const Recipe& recipe) {
  return !recipe.grafting &&
         std::visit([&](const auto& kind) { return acts_before_refresh(kind, recipe); },
                    recipe.preconditioner);
}

bool acts_on(const Recipe& recipe, std::span<const std::int64_t> extent) {
  return std::visit([&](const auto& kind) { return acts_on(kind, extent); }, recipe.preconditioner);
}

bool filters_gradient(const Recipe& recipe) {
  return std::visit([&](const auto& kind) { return filters_gradient(kind, recipe); },
                    recipe.preconditioner);
}

void GroupPreconditioner::apply_and_update(ChunkContext&) {
  throw std::logic_error("apply_and_update: this kind needs all directions of a chunk");
}

StoredDirection stored_direction(const Recipe& recipe, const kernels::Backend& backend) {
  return std::visit(
      [&](const auto& kind) {
        using enum StoredDirection;
        if (is_blockwise(kind, recipe)) return backend.has_block_passes() ? block : all;
        return is_elementwise(kind) && !recipe.grafting ? none : all;
      },
      recipe.preconditioner);
}

std::unique_ptr<GroupPreconditioner> make_preconditioner(const PreconditionerContext& context) {
  return std::visit([&](const auto& kind) { return make(kind, context, Role::preconditioner); },
                    context.recipe.preconditioner);
}

std::unique_ptr<GroupPreconditioner> make_grafting(const PreconditionerContext& context) {
  if (!context.recipe.grafting) return nullptr;
  return std::visit([&](const auto& kind) { return make(kind, context, Role::grafting); },
                    *context.recipe.grafting);
}

}  // namespace shampoo
