// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/support/device/backends.h"

/// Of programs whose tests all need a GPU: without one they are skipped, or fail where
/// SHAMPOO_REQUIRE_CUDA is 1.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  const std::string reason = shampoo::test::missing(shampoo::test::Place::cuda);
  if (reason.empty()) return RUN_ALL_TESTS();
  const char* const required = std::getenv("SHAMPOO_REQUIRE_CUDA");
  const bool fails = required != nullptr && std::string(required) == "1";
  std::cout << (fails ? "[  FAILED  ] " : "[  SKIPPED ] ") << reason << '\n';
  return fails ? 1 : 0;
}
