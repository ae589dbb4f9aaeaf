// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <span>

namespace shampoo::test {

/// Largest |ours - theirs| and largest |theirs|.
struct Distance {
  double absolute = 0;
  double scale = 0;
};

/// NaN where a number is NaN.
inline double larger(double a, double b) {
  if (std::isnan(a)) return a;
  return b <= a ? a : b;
}

inline Distance distance(std::span<const double> ours, std::span<const double> theirs) {
  Distance result;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    result.absolute = larger(result.absolute, std::abs(ours[i] - theirs[i]));
    result.scale = larger(result.scale, std::abs(theirs[i]));
  }
  return result;
}

/// Whether max |ours - theirs| <= tolerance * max |theirs|. False where sizes differ or a number is
/// not finite.
inline ::testing::AssertionResult near(std::span<const double> ours, std::span<const double> theirs,
                                       double tolerance) {
  if (ours.size() != theirs.size())
    return ::testing::AssertionFailure() << ours.size() << " numbers, not " << theirs.size();
  const Distance d = distance(ours, theirs);
  if (std::isfinite(d.absolute) && d.absolute <= tolerance * d.scale)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "differ by " << d.absolute << ", " << d.absolute / d.scale
         << " of the largest; at most " << tolerance << " of it is allowed";
}

}  // namespace shampoo::test
