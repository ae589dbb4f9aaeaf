// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::checkpoint::command::test {

/// A whole tensor, and how a checkpoint cuts it: one file per piece.
struct CutTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  std::vector<grouping::Box> boxes;
  std::vector<std::byte> bytes;
};

template <typename Value>
std::vector<std::byte> bytes_from(const std::vector<Value>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Saves root/step-N.
std::filesystem::path save_cut(const std::filesystem::path& root, std::int64_t step,
                               const std::vector<CutTensor>& tensors,
                               const std::map<std::string, std::string>& values = {});

}  // namespace shampoo::checkpoint::command::test
