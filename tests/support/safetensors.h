// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace shampoo::test {

/// A safetensors file whose tensors are all F64.
struct SafeTensors {
  struct Tensor {
    std::vector<std::int64_t> shape;  ///< empty: a scalar
    std::vector<double> elements;     ///< row-major
  };

  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> tensors;
};

/// Reads the whole file. Throws std::invalid_argument that names file and fault unless the header
/// is exact and the tensors cover the data without a gap or an overlap.
SafeTensors read_safetensors(const std::filesystem::path& path);

/// Reads the metadata alone, and checks nothing else. Throws as read_safetensors().
std::map<std::string, std::string> read_metadata(const std::filesystem::path& path);

}  // namespace shampoo::test
