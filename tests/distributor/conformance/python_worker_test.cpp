// SPDX-License-Identifier: Apache-2.0
// Python workers of any PyTorch under shampoorun, unchanged.
#include "tests/distributor/conformance/launcher_conformance.h"

namespace shampoo::launcher::test {

using shampoo::test::TemporaryFolder;
namespace {

/// Joins twice: the first attempt fails after the sum. PyTorch trusts any key that it finds in the
/// store, so that this works only with a fresh one.
void expect_sums(const std::string& python, const std::string& version) {
  TemporaryFolder folder;
  setenv("PYTHON_EXEC", python.c_str(), 1);
  LaunchedJob job({SHAMPOORUN, "--nproc-per-node", "2", "--max-restarts", "1", "--log-dir",
                   folder.path(), PYTHON_WORKER});

  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(job.count("torch " + version), 4) << job.output();
  for (const char* rank : {"0", "1"}) {
    for (const char* attempt : {"0", "1"}) {
      EXPECT_EQ(
          job.count(": rank " + std::string(rank) + " of 2, attempt " + attempt + ", sum 1.0"), 1)
          << job.output();
    }
  }
}

TEST(PythonWorker, OfDebiansPyTorchSumsAndRestartsUnderShampoorun) {
  if (python_of_debian().empty()) GTEST_SKIP() << "no package python3-torch";

  expect_sums(python_of_debian(), "1.13");
}

TEST(PythonWorker, OfTheEnvironmentsPyTorchSumsAndRestartsUnderShampoorun) {
  if (python_of_environment().empty()) GTEST_SKIP() << "SHAMPOO_TORCH_PYTHON is not set";

  expect_sums(python_of_environment(), "");
}

}  // namespace
}  // namespace shampoo::launcher::test
