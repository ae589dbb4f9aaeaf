// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/blas_setup.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/blas/blas.h"

namespace shampoo::test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A function of the BLAS that the library uses.
template <typename Function>
Function* symbol(const char* name) {
  return kernels::blas::library().find<Function>(name);
}

/// A function of the BLAS that this program is linked with.
template <typename Function>
Function* symbol_of_program(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

bool is_own() {
  return kernels::file_of(reinterpret_cast<const void*>(symbol<void()>("sgemm_")))
             .find("libshampoo_blas") != std::string::npos;
}

std::int64_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// Before the library loads its BLAS.
const std::int64_t threads_at_start = threads_of_process();

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

TEST_F(BlasSetUp, LeavesTheProgramsOwnAlone) {
  if (!is_own()) GTEST_SKIP() << "BLAS is shared with the program";
  const auto threads = symbol_of_program<int()>("openblas_get_num_threads");
  const auto core = symbol_of_program<char*()>("openblas_get_corename");
  ASSERT_TRUE(threads && core) << "this program is not linked with OpenBLAS";
  symbol_of_program<void(int)>("openblas_set_num_threads")(2);
  const std::string before = core();

  const auto backend = cpu_backend({.threads = 1});

  EXPECT_EQ(threads(), 2);
  EXPECT_EQ(core(), before);
  EXPECT_EQ(threads_of_process(), threads_at_start) << "threads of ours that do nothing";
  EXPECT_TRUE(has(backend->description(), "a copy of the library's own"));
  EXPECT_NE(symbol<void()>("sgemm_"), symbol_of_program<void()>("sgemm_"));
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
