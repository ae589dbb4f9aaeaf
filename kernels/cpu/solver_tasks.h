// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/cpu/threads/workers.h"
#include "kernels/cpu/with_real.h"
#include "kernels/views.h"

namespace shampoo::kernels {

template <typename Real>
Real* matrix_of(const SquareMatrixBatch& group, std::int64_t member) {
  return static_cast<Real*>(group.data) + member * group.side * group.side;
}

template <typename Real>
Real* values_of(const SquareMatrixBatch& group, std::int64_t member) {
  return static_cast<Real*>(group.values) + member * group.side;
}

/// True if no element times the factor is infinite or NaN as a `Stored`. In lanes, which compilers
/// turn into vectors.
template <typename Stored, typename Real>
bool is_finite_in(const Real* x, std::int64_t count, Real factor = 1) {
  constexpr int lanes = 16;
  constexpr Stored largest = std::numeric_limits<Stored>::max();
  std::int32_t bad[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      bad[lane] |= std::abs(static_cast<Stored>(factor * x[i + lane])) <= largest ? 0 : 1;
  for (; i < count; ++i) bad[0] |= std::isfinite(static_cast<Stored>(factor * x[i])) ? 0 : 1;
  return std::all_of(bad, bad + lanes, [](std::int32_t b) { return b == 0; });
}

/// True if no element is infinite or NaN.
template <typename Real>
bool is_finite(const Real* x, std::int64_t count) {
  return is_finite_in<Real>(x, count);
}

/// One task for every matrix; body(group, member, scratch). `work` is the number of operations, in
/// units of side^power.
template <typename Group, typename Body>
void for_each_matrix(Workers& workers, std::span<const Group> groups, int power, double work,
                     Body&& body) {
  workers.schedule.clear();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const double side = static_cast<double>(groups[g].side);
    workers.schedule.add(g, groups[g].count, work * side * side * (power == 3 ? side : 1.0));
  }
  workers.run_schedule(body);
}

}  // namespace shampoo::kernels
