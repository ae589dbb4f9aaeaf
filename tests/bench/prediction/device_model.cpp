// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/device_model.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace shampoo::test {

namespace {

const std::array<const char*, 5> unit_names = {"-", "fp32 multipliers", "matrix fp16",
                                               "library fp32", "library fp64"};

const std::vector<DeviceModel>& device_models() {
  // Data sheets: 4.8 and 3.35 TB/s; dense 990 TFLOP/s in 16 bits, 67 in fp32 and in fp64. Copies
  // reach 0.9 of the bandwidth. Batches of products of side 1024 reach 620 in 16 bits, where one
  // large product reaches 757 to 790. Queued kernels that wait for each other start 2 to 3 us apart
  // outside of graphs.
  static const std::vector<double> teraflops = {1, 50, 620, 50, 55};
  static const std::vector<DeviceModel> all = {
      {"h200", "NVIDIA H200", {4.3, 790, 380}, 2.5, 500, teraflops},
      {"h100", "NVIDIA H100 80GB HBM3", {3.0, 757, 380}, 2.5, 500, teraflops}};
  return all;
}

}  // namespace

std::string name_of(Unit unit) { return unit_names[static_cast<std::size_t>(unit)]; }

std::vector<std::string> device_model_names() {
  std::vector<std::string> names;
  for (const DeviceModel& machine : device_models()) names.push_back(machine.name);
  return names;
}

const DeviceModel& device_model(const std::string& name) {
  const auto found = std::ranges::find(device_models(), name, &DeviceModel::name);
  if (found == device_models().end()) throw std::invalid_argument("no rates of a device " + name);
  return *found;
}

const DeviceModel* device_model_of(const std::string& description) {
  for (const DeviceModel& machine : device_models())
    if (description.find(machine.full_name) != std::string::npos) return &machine;
  return nullptr;
}

}  // namespace shampoo::test
