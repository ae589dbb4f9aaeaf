// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/text.h"

#include <gtest/gtest.h>

namespace shampoo::checkpoint::command::test {
namespace {

TEST(Texts, OfCountsAndShapesAreShort) {
  EXPECT_EQ(shape_text({}), "scalar");
  EXPECT_EQ(shape_text({3, 0}), "3x0");
  EXPECT_EQ(counted(1, "tensor"), "1 tensor");
  EXPECT_EQ(counted(0, "tensor"), "0 tensors");
}

TEST(Texts, OfAnyBytesBecomeJson) {
  EXPECT_EQ(to_text(Json{{"a", "\xff"}}), "{\n  \"a\": \"\xef\xbf\xbd\"\n}\n");
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
