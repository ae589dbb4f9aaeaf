// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>

#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/shampoo/checkpoint/command/asked.h"
#include "tests/shampoo/checkpoint/damage.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::command::test {
namespace {

/// Those that load() refuses, see AreRefusedWithAManifestThatLies.
TEST(VerifyingAJob, FindsEveryManifestThatLies) {
  const checkpoint::test::TemporaryFolder root;
  const auto folder =
      shampoo::test::save_first<float>(root.path(), shampoo::test::small, {.ranks = 2});
  ASSERT_EQ(ask({"verify", folder}).status, 0);
  const auto manifest = folder / manifest_name;
  int cases = 0;
  for (const shampoo::test::Lie& lie :
       shampoo::test::lies_about(checkpoint::test::content_of(manifest))) {
    checkpoint::test::put(manifest, lie.text);
    EXPECT_EQ(ask({"verify", folder}).status, 1) << lie.what;
    ++cases;
  }
  EXPECT_GE(cases, 1300);
}

}  // namespace
}  // namespace shampoo::checkpoint::command::test
