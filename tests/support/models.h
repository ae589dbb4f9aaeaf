// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shampoo::test {

/// Names and shapes of a network's parameters, and the block size it is trained with.
struct Model {
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
  };

  std::int64_t block_size = 0;
  std::vector<Tensor> tensors;

  /// Number of values in all tensors together.
  std::int64_t numel() const;
};

/// The folder that holds the models of this repository.
std::filesystem::path model_folder();

/// Reads a model. `name_or_path` is either a path that ends in .json, or the name of a file in
/// model_folder() without that ending. Throws std::invalid_argument, naming the file, where it
/// cannot be read or is no model.
Model load_model(const std::string& name_or_path);

/// The models of this repository, in the order in which tables list them.
inline constexpr std::array model_names = {"small", "many", "vit-b16", "gpt2-124m", "llama-1.3b"};

}  // namespace shampoo::test
