// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

/// Counters of this rank since construction.
struct Statistics {
  std::int64_t applied_steps = 0;
  std::int64_t skipped_steps = 0;   ///< for a non-finite gradient
  std::int64_t refreshes = 0;       ///< roots computed
  std::int64_t by_eigenvalues = 0;  ///< of these: fell back to an eigendecomposition
  std::int64_t jittered = 0;        ///< of these: with a jittered diagonal
  std::int64_t in_float64 = 0;      ///< of these: after a failure in float32
  std::int64_t by_jacobi = 0;       ///< of these: by Jacobi rotations
  std::int64_t kept_roots = 0;      ///< failed: the old root is still in use
  /// Raised by a shift or a relative floor; under Minimax, factors whose relative damping exceeded
  /// epsilon.
  std::int64_t raised_eigenvalues = 0;
};

}  // namespace shampoo
