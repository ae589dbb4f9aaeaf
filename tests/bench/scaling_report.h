// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/bench/scaling_model.h"
#include "tests/bench/scaling_validation.h"

namespace shampoo::test {

/// All that a simulation found.
struct Report {
  std::string model;  ///< name
  Job job;
  KernelRates rates = {};
  std::string rates_source = {};  ///< where the rates come from
  Link link = {};
  std::vector<Forecast> forecasts = {};
  std::vector<Validation> validations = {};
};

/// What the predictions take for granted, one sentence or two each.
std::vector<std::string> assumptions(const Report& report);

/// The assumptions and the tables. Lines end with '\n'.
std::string text_of(const Report& report);

/// One JSON object: bytes in bytes, times in milliseconds.
std::string json_of(const Report& report);

}  // namespace shampoo::test
