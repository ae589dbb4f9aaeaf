// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/fashion/network/network.h"
#include "shampoo/shampoo.h"

namespace fashion {

/// Recipe of a group, with all its rates but the learning rate, which the schedule sets.
struct Settings {
  shampoo::Recipe recipe;
  shampoo::Rates rates;
};

/// An optimizer to train with.
struct Method {
  std::string key;   ///< on the command line; of routed_method() its file
  std::string name;  ///< in tables, charts and folders
  double rate;       ///< peak learning rate: better than a third and three times as much
  bool decays;       ///< the learning rate falls to 0; otherwise it is constant
  Settings settings;
  Settings hidden;  ///< of the weights of hidden layers; the same but for Muon
  std::optional<shampoo::Routes> routes = {};  ///< in place of the settings
};

/// All of them, in the order of the documentation.
std::span<const Method> methods();
/// Throws std::invalid_argument for an unknown key.
const Method& method(const std::string& key);

/// A method whose groups are those of the routes in this file, with the file's name and the peak
/// learning rates that it has. Throws std::invalid_argument with the file and the place in it.
Method routed_method(const std::filesystem::path& file);

/// Block size and refreshes of the methods that have them.
struct Preconditioning {
  std::int64_t block;
  std::int64_t refresh;  ///< interval, in steps
  bool at_once = false;  ///< all blocks in one step
};

/// The network's parameters in groups that differ in their rates and, for Muon, in the recipe:
/// weights decay, biases do not, and the last layer has a learning rate of its own. Or in those of
/// the method's routes. Learning rates are factors of the schedule's.
std::vector<shampoo::ParameterGroup> parameter_groups(const Method& method,
                                                      const Preconditioning& preconditioning,
                                                      std::vector<shampoo::Parameter> parameters);

}  // namespace fashion
