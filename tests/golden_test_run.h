// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "distributor/communicator.h"
#include "tests/golden_test_case.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {

/// Values after every step, then evaluation values after the steps of evaluate_after:
/// [row][parameter].
using Values = std::vector<std::vector<Numbers>>;

enum class Merging { one_optimizer, one_optimizer_per_group };

/// Trains the case as its recipes say, with values and gradients in float64. Every rank has a copy
/// of the model, in the memory of a backend at `place`.
Values run_in_float64(const GoldenCase& golden, Merging merging, Communicator& ranks,
                      Place place = Place::cpu);

struct Float32Run {
  Values values;
  /// Largest error of the roots of a block that were computed on the way, with one rank; see
  /// SolverErrorMeter.
  double solver_error = 0;
};

/// The same with values, gradients, state and computation in float32. Tolerances of iterative
/// solvers that only float64 can meet are raised to what the solver has by default.
Float32Run run_in_float32(const GoldenCase& golden, Merging merging, Communicator& ranks,
                          Place place = Place::cpu);

/// The values of one of both; `type` is float64 or float32.
Values run(const GoldenCase& golden, Type type, Merging merging, Communicator& ranks,
           Place place = Place::cpu);

/// Why a case cannot be told apart from another one in float32; empty: it can.
std::string beyond_float32(const GoldenCase& golden);

}  // namespace shampoo::test
