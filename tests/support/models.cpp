// SPDX-License-Identifier: Apache-2.0
#include "tests/support/models.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace shampoo::test {

std::int64_t Model::numel() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) {
    std::int64_t product = 1;
    for (std::int64_t side : tensor.shape) product *= side;
    sum += product;
  }
  return sum;
}

std::filesystem::path model_folder() { return SHAMPOO_TEST_MODELS; }

Model load_model(const std::string& name_or_path) {
  const std::filesystem::path path = name_or_path.ends_with(".json")
                                         ? std::filesystem::path(name_or_path)
                                         : model_folder() / (name_or_path + ".json");
  std::ifstream file(path);
  if (!file) throw std::invalid_argument(path.string() + ": this file cannot be opened");

  try {
    const nlohmann::json json = nlohmann::json::parse(file);
    Model model{json.at("block_size").get<std::int64_t>(), {}};
    for (const nlohmann::json& tensor : json.at("tensors"))
      model.tensors.push_back({tensor.at("name").get<std::string>(),
                               tensor.at("shape").get<std::vector<std::int64_t>>()});
    return model;
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(path.string() + ": not a model: " + error.what());
  }
}

}  // namespace shampoo::test
