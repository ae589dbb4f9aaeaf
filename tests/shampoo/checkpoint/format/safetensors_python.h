// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/temporary_folder.h"

namespace shampoo::test {

/// Runs a Python that has PyPI's packages safetensors and numpy; SHAMPOO_SAFETENSORS_PYTHON names
/// it. If it does, one that lacks them is a failure; if not, a skip.
class SafetensorsInPython : public testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("SHAMPOO_SAFETENSORS_PYTHON");
    python_ = named != nullptr ? named : "python3";
    if (run("import safetensors.numpy") == 0) return;
    ASSERT_EQ(named, nullptr) << output();
    GTEST_SKIP() << "no Python with safetensors; SHAMPOO_SAFETENSORS_PYTHON can name one";
  }

  /// The script's argument is folder_.
  int run(const std::string& script) {
    const auto path = write_file(folder_.path() / "script.py", script);
    return std::system(("'" + python_ + "' " + path.string() + " " + folder_.path().string() +
                        " > " + (folder_.path() / "output").string() + " 2>&1")
                           .c_str());
  }
  std::string output() { return content_of(folder_.path() / "output"); }

  TemporaryFolder folder_;
  std::string python_;
};

}  // namespace shampoo::test
