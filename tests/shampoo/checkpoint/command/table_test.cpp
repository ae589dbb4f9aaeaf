// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/table.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "shampoo/checkpoint/command/text.h"

namespace shampoo::checkpoint::command::test {
namespace {

TEST(Tables, AlignByCharactersAndEndLinesWithoutBlanks) {
  Table table({{"name"}, {"n", Align::right}, {""}});
  EXPECT_EQ(table.text(), "name  n\n");
  table.add({"\xc3\xa9", "10", "x"});
  table.add({"longer", "7", ""});

  EXPECT_EQ(table.text(),
            "name     n\n"
            "\xc3\xa9       10  x\n"
            "longer   7\n");
}

TEST(Texts, OfSizesAndShapesAreShort) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(shape_text({}), "scalar");
  EXPECT_EQ(shape_text({3, 0}), "3x0");
  EXPECT_EQ(box_text({{1, 0}, {2, 3}}, {3, 3}), "[1:3, 0:3]");
  EXPECT_EQ(box_text({{0, 0}, {3, 3}}, {3, 3}), "all");
  EXPECT_EQ(counted(1, "tensor"), "1 tensor");
  EXPECT_EQ(counted(0, "tensor"), "0 tensors");
}

TEST(Texts, ThatAreTooLongEndBetweenCharacters) {
  EXPECT_EQ(shortened(std::string(60, 'x')), std::string(60, 'x'));
  EXPECT_EQ(shortened(std::string(61, 'x')), std::string(57, 'x') + "...");
  std::string accents;
  for (int i = 0; i < 40; ++i) accents += "\xc3\xa9";
  EXPECT_EQ(shortened(accents), accents.substr(0, 56) + "...");
}

TEST(Texts, OfAnyBytesBecomeJson) {
  EXPECT_EQ(to_text(Json{{"a", "\xff"}}), "{\n  \"a\": \"\xef\xbf\xbd\"\n}\n");
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
