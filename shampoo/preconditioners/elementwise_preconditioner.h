// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/preconditioners/without_refresh.h"

namespace shampoo {

/// A kind that works on each element alone, in the pass over the gradients, which accumulate()
/// arranges: nothing is refreshed.
class ElementwisePreconditioner : public WithoutRefresh {
 public:
  void apply(ChunkContext&) final {}
  std::string_view waiting_solver() const final { return {}; }
};

}  // namespace shampoo
