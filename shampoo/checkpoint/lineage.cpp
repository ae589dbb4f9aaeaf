// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/lineage.h"

#include <algorithm>

#include "shampoo/state/optimizer_access.h"

namespace shampoo::checkpoint {
namespace {

CheckpointLineage& lineage_of(const NamedOptimizer& optimizer) {
  return OptimizerAccess::lineage(optimizer.optimizer);
}

}  // namespace

SaveLineage::SaveLineage(const Optimizers& optimizers)
    : optimizers_(optimizers), parent_(lineage_of(optimizers.all().front()).latest) {
  for (const NamedOptimizer& optimizer : optimizers_.all())
    loads_.push_back(lineage_of(optimizer).loads);
  for (const NamedOptimizer& optimizer : optimizers_.all()) ++lineage_of(optimizer).saves;
}

SaveLineage::~SaveLineage() {
  for (const NamedOptimizer& optimizer : optimizers_.all()) --lineage_of(optimizer).saves;
}

bool SaveLineage::passed_over(const std::filesystem::path& folder) const {
  return std::ranges::any_of(optimizers_.all(), [&](const NamedOptimizer& optimizer) {
    return lineage_of(optimizer).passed_over.contains(folder);
  });
}

void SaveLineage::begin() {
  const CheckpointLineage& first = lineage_of(optimizers_.all().front());
  // A save that was queued before it may have completed meanwhile.
  if (first.loads == loads_.front()) parent_ = first.latest;
  for (const NamedOptimizer& optimizer : optimizers_.all()) {
    const CheckpointLineage& lineage = lineage_of(optimizer);
    if (!lineage.loaded.empty()) kept_.push_back(lineage.loaded);
    stale_.insert(stale_.end(), lineage.stale.begin(), lineage.stale.end());
  }
}

void SaveLineage::finish(const std::string& save, const std::filesystem::path& folder) {
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    CheckpointLineage& lineage = lineage_of(optimizers_.all()[i]);
    if (lineage.loads == loads_[i]) lineage.latest = save;
    lineage.passed_over.erase(folder);
  }
}

void SaveLineage::leave(const std::vector<std::filesystem::path>& stale) {
  std::vector<std::filesystem::path>& known = lineage_of(optimizers_.all().front()).stale;
  known.insert(known.end(), stale.begin(), stale.end());
}

void note_loaded(const Optimizers& optimizers, const std::string& save,
                 std::span<const BrokenCheckpoint> passed_over) {
  for (const NamedOptimizer& optimizer : optimizers.all()) {
    CheckpointLineage& lineage = lineage_of(optimizer);
    lineage.latest = lineage.loaded = save;
    ++lineage.loads;
    lineage.passed_over.clear();
    for (const BrokenCheckpoint& broken : passed_over) lineage.passed_over.insert(broken.path);
  }
}

}  // namespace shampoo::checkpoint
