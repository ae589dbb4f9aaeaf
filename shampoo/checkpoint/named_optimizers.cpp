// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/named_optimizers.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "grouping/joined.h"
#include "shampoo/state/load_faults.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo::checkpoint {
namespace {

std::string quoted(const std::string& name) { return "'" + name + "'"; }

template <typename List>
std::string names_text(const List& optimizers) {
  return grouping::joined(optimizers, ", ", [](const auto& one) { return quoted(one.name); });
}

}  // namespace

std::string scope_of(const std::string& optimizer) {
  return optimizer.empty() ? "" : optimizer + "/";
}

std::string validate(const Optimizers& optimizers) {
  if (!optimizers.are_named()) return "";
  const Communicator& first = OptimizerAccess::communicator(optimizers.first());
  std::set<std::string_view> names;
  std::set<const Optimizer*> known;
  for (const auto& [name, optimizer] : optimizers.all()) {
    const auto require = [&, who = quoted(name)](bool holds, const std::string& fault) {
      if (!holds) throw std::invalid_argument("optimizer " + who + ": " + fault);
    };
    require(is_optimizer_name(name),
            "name: must be 1 to 255 letters, digits, '.', '_' and '-', the first no '.'");
    require(names.insert(name).second, "name: must be unique");
    require(known.insert(&optimizer).second, "is in the list twice");
    const Communicator& ranks = OptimizerAccess::communicator(optimizer);
    require(ranks.rank() == first.rank() && ranks.size() == first.size(),
            "communicator: must be of the same ranks as that of " +
                quoted(optimizers.all().front().name) + ", where this is rank " +
                std::to_string(first.rank()) + " of " + std::to_string(first.size()) +
                ", got rank " + std::to_string(ranks.rank()) + " of " +
                std::to_string(ranks.size()));
  }
  return "optimizers: " + names_text(optimizers.all()) + "\n";
}

void require_saved(const Manifest& manifest, const Optimizers& optimizers, bool strict) {
  const std::vector<SavedOptimizer>& saved = manifest.optimizers;
  const auto is_saved = [&](const NamedOptimizer& optimizer) {
    return std::ranges::find(saved, optimizer.name, &SavedOptimizer::name) != saved.end();
  };
  const bool has_all =
      optimizers.are_named() ? std::ranges::all_of(optimizers.all(), is_saved) : saved.empty();
  const bool has_more = optimizers.are_named() && saved.size() > optimizers.all().size();
  if (has_all && !(strict && has_more)) return;
  throw std::invalid_argument(
      "optimizers: the checkpoint has " +
      (saved.empty() ? "one without a name" : names_text(saved)) + ", to be loaded are " +
      (optimizers.are_named() ? names_text(optimizers.all()) : "those without a name") +
      (has_all ? std::string("; ") + strict_hint : ""));
}

}  // namespace shampoo::checkpoint

namespace shampoo {

Optimizers::Optimizers(std::vector<NamedOptimizer> several)
    : all_(std::move(several)), are_named_(true) {
  if (all_.empty()) throw std::invalid_argument("optimizers: must be at least one, got none");
}

}  // namespace shampoo
