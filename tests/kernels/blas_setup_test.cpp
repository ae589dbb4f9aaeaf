// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/blas_setup.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/backend.h"

namespace shampoo::test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <typename Function>
Function* symbol(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

class BlasSetUp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (was_set_up) GTEST_SKIP() << "BLAS is set up once: run this test by itself, as CTest does";
    was_set_up = true;
    if (!symbol<char*()>("openblas_get_corename")) GTEST_SKIP() << "BLAS is not OpenBLAS";
  }

  static inline bool was_set_up = false;

  /// What the library calls the kernels that it uses now.
  std::string core() { return symbol<char*()>("openblas_get_corename")(); }
};

TEST_F(BlasSetUp, IsReported) {
  const std::string text = cpu_backend({.threads = 2})->description();

  EXPECT_TRUE(has(text, "2 threads")) << text;
  EXPECT_TRUE(has(text, "OpenBLAS " + core())) << text;
  EXPECT_TRUE(has(text, "1 thread per call")) << text;
}

TEST_F(BlasSetUp, IsLeftOutIfSwitchedOff) {
  symbol<void(int)>("openblas_set_num_threads")(2);
  const std::string before = core();
  const std::string text = cpu_backend({.threads = 1, .set_up_blas = false})->description();

  EXPECT_EQ(core(), before);
  EXPECT_TRUE(has(text, "2 threads per call")) << text;
  EXPECT_FALSE(has(text, "changed")) << text;
}

TEST_F(BlasSetUp, ReplacesKernelsThatAreOlderThanTheProcessor) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "the processor has no AVX2";
  // As a library does that does not know the processor, or a user with an old setting.
  setenv("OPENBLAS_CORETYPE", "Prescott", 1);
  symbol<void()>("gotoblas_dynamic_quit")();
  symbol<void()>("gotoblas_dynamic_init")();
  ASSERT_EQ(core(), "Prescott");

  const std::string text = cpu_backend()->description();

  EXPECT_EQ(core(), __builtin_cpu_supports("avx512vl") ? "SkylakeX" : "Haswell");
  EXPECT_TRUE(has(text, "changed from Prescott")) << text;
  EXPECT_STREQ(std::getenv("OPENBLAS_CORETYPE"), "Prescott") << "the environment stays as it was";
#else
  GTEST_SKIP() << "only x86-64 has kernels to choose from";
#endif
}

}  // namespace
}  // namespace shampoo::test
