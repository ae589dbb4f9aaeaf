// SPDX-License-Identifier: Apache-2.0
#include "kernels/module.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/blas/blas.h"

namespace shampoo::test {
namespace {

using kernels::Binding;
using kernels::Module;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Module, NamesTheFoldersWhereItIsNot) {
  const Module module("of_another_kind", Binding::own);

  EXPECT_FALSE(module.loaded());
  EXPECT_TRUE(has(module.problem(), "libshampoo_of_another_kind.so: not found in "))
      << module.problem();
  EXPECT_TRUE(has(module.problem(), SHAMPOO_TEST_MODULES)) << module.problem();
  EXPECT_TRUE(has(module.problem(), "/shampoo")) << module.problem();
  EXPECT_EQ(module.find<void()>("sgemm_"), nullptr);
}

TEST(Module, SaysWhyAFileCannotBeLoaded) {
  const Module module("broken_for_test", Binding::program);

  EXPECT_FALSE(module.loaded());
  EXPECT_TRUE(has(module.problem(), "libshampoo_broken_for_test.so: ")) << module.problem();
  EXPECT_FALSE(has(module.problem(), "not found")) << module.problem();
}

TEST(Module, FindsItsFunctionsAndNoOthers) {
  const Module& blas = kernels::blas::library();

  EXPECT_NE(blas.find<void()>("sgemm_"), nullptr);
  EXPECT_EQ(blas.find<void()>("no_such_function"), nullptr);
}

}  // namespace
}  // namespace shampoo::test
