// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/preconditioners/preconditioner.h"

namespace shampoo {

/// A kind without derived slots: nothing is refreshed, and nothing counts as failed.
class WithoutRefresh : public GroupPreconditioner {
 public:
  void prepare(std::span<const BlockStep>) final {}
  void refresh(StepContext&) final {}
  bool refreshes() const final { return false; }
  void collect(Statistics&) final {}
  void recompute(std::span<const BlockStep>, Statistics&) final {}
  int failures(std::size_t) const final { return 0; }
  void set_failures(std::size_t, int) final {}
  std::int64_t exhausted_block() const final { return -1; }
  std::int64_t workspace_bytes() const final { return 0; }
};

}  // namespace shampoo
