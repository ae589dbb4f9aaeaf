// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/bench/prediction/device_floor.h"

namespace shampoo::test {

/// What does the arithmetic of a kernel.
enum class Unit {
  none,             ///< memory, or nothing but its launch
  float32,          ///< fused multiply-adds of float32
  matrix_float16,   ///< matrix units by 16 bits
  library_float32,  ///< a library's products without matrix units
  library_float64
};

std::string name_of(Unit unit);

/// What one device reaches, below its data sheet.
struct DeviceModel {
  std::string name, full_name;
  DeviceRates rates = {};
  double launch_us = 0;           ///< from one kernel to the next that waits for it
  double blocks_per_us = 0;       ///< thread blocks that start and leave at once
  std::vector<double> teraflops;  ///< by Unit

  double teraflops_of(Unit unit) const { return teraflops[static_cast<std::size_t>(unit)]; }
};

/// Throws std::invalid_argument for a name that is not in device_model_names().
const DeviceModel& device_model(const std::string& name);
/// The one whose device a backend's description names; null: none is known.
const DeviceModel* device_model_of(const std::string& description);
std::vector<std::string> device_model_names();

}  // namespace shampoo::test
