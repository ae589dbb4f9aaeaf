// SPDX-License-Identifier: Apache-2.0
#include "tests/support/near.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace shampoo::test {
namespace {

using Numbers = std::vector<double>;

TEST(Near, IsRelativeToTheLargestNumber) {
  EXPECT_TRUE(near(Numbers{8, 1.5}, Numbers{8, 1}, 1.0 / 16));
  EXPECT_FALSE(near(Numbers{8, 1.5}, Numbers{8, 1}, 1.0 / 17));
}

TEST(Near, OfNothingOrZerosIsExact) {
  EXPECT_TRUE(near(Numbers{}, Numbers{}, 0));
  EXPECT_TRUE(near(Numbers{0}, Numbers{0}, 1e-3));
  EXPECT_FALSE(near(Numbers{1e-300}, Numbers{0}, 1e-3));
}

TEST(Near, RefusesOtherSizesAndNumbersThatAreNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_FALSE(near(Numbers{1}, Numbers{1, 1}, 1));
  EXPECT_FALSE(near(Numbers{nan, 1}, Numbers{1, 1}, 1));
  EXPECT_FALSE(near(Numbers{1, nan}, Numbers{1, 1}, 1));
  EXPECT_FALSE(near(Numbers{infinity}, Numbers{1}, 1));
  EXPECT_FALSE(near(Numbers{1}, Numbers{infinity}, 1));
}

}  // namespace
}  // namespace shampoo::test
