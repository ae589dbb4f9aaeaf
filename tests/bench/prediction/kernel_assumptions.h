// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/bench/prediction/device_model.h"

namespace shampoo::test {

/// How fast one kind of kernel is assumed to be.
struct KernelAssumption {
  const char* kernel;  ///< without template arguments
  Unit unit;
  double share;      ///< of its bound, bytes or flops, that it reaches
  const char* text;  ///< why
};

/// Null for a kernel that nothing is assumed of: its launch alone is counted.
const KernelAssumption* assumption_of(const std::string& kernel);

}  // namespace shampoo::test
