// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

namespace shampoo::test {

using Numbers = std::vector<double>;

struct GoldenParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  int group = 0;
  Numbers initial;
  std::vector<std::optional<Numbers>> gradients;  ///< per step; empty: absent
  std::vector<Numbers> values;                    ///< after each step
  std::vector<Numbers> evaluations;               ///< after each step of evaluate_after
};

struct GoldenGroup {
  Rates rates;
  Recipe recipe;
  std::map<std::string, Numbers> schedule;  ///< rate -> one value per step
};

/// A recorded training.
struct GoldenCase {
  int steps = 0;
  double sensitivity = 0;
  std::vector<int> evaluate_after;  ///< steps, counted from 1
  std::vector<GoldenParameter> parameters;
  std::vector<GoldenGroup> groups;
};

/// What a file is about.
struct GoldenOutline {
  std::string family;
  std::size_t groups = 0;
  std::string unsupported = {};  ///< a kind that the library does not have; empty: none
};

/// Without the tensors. Throws std::invalid_argument.
GoldenOutline read_outline(const std::filesystem::path& path);

/// Reads a case whose kinds the library has. Throws std::invalid_argument for anything in it that
/// is unknown, missing or left over.
GoldenCase read_case(const std::filesystem::path& path);

}  // namespace shampoo::test
