// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/device_floor.h"

#include "grouping/blocks.h"

namespace shampoo::test {

DeviceFloor device_floor(const Model& model, std::int64_t block_size, Type type,
                         const DeviceRates& rates) {
  // Of 16-bit tensors: gradient 2, master, M and V read and written 24, value 2. Of float32:
  // gradient 4, value, M and V read and written 24.
  constexpr double bytes_per_element = 28;
  double bytes = 0, factor_bytes = 0, gram = 0, precondition = 0;
  for (const Model::Tensor& tensor : model.tensors) {
    const grouping::Shape merged = grouping::merge_small_dimensions(tensor.shape, block_size, 1);
    for (const grouping::Box& box : grouping::cut(merged, block_size)) {
      const auto elements = static_cast<double>(grouping::numel(box.extent));
      bytes += bytes_per_element * elements;
      if (box.extent.size() < 2) continue;
      for (const std::int64_t extent : box.extent) {
        const auto n = static_cast<double>(extent);
        factor_bytes += 2 * sizeof(float) * n * (n + 1) / 2;
        gram += (n + 1) * elements;
        precondition += 2 * n * elements;
      }
    }
  }
  const double statistics = has_master(type) ? rates.tensor_teraflops : rates.tf32_teraflops;
  const double bytes_per_ms = rates.terabytes_per_second * 1e9;
  return {bytes / bytes_per_ms, factor_bytes / bytes_per_ms, gram / (statistics * 1e9),
          precondition / (rates.tensor_teraflops * 1e9)};
}

}  // namespace shampoo::test
