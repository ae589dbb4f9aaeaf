// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/gpt/slab.h"
#include "shampoo/shampoo.h"

namespace gpt {

/// An optimizer for the matrices of the hidden layers. All else is trained by AdamW.
struct Method {
  std::string key, name;
  shampoo::Recipe recipe;
  shampoo::Rates rates;  ///< learning_rate: the best found, see README.md
};

/// All that --optimizer can name.
std::span<const Method> methods();
/// Throws std::invalid_argument for another key.
const Method& method(const std::string& key);

/// What may be set beside the method.
struct Settings {
  std::optional<double> rate = {};  ///< peak, of the matrices; the method's own unless set
  /// Peak, of all else; 3e-3 unless set, or with AdamW that of the matrices.
  std::optional<double> embedding_rate = {};
  std::optional<int> block = {}, refresh = {};  ///< of recipes with roots or bases
  std::optional<double> beta2 = {};             ///< of the recipe's statistics
  std::string grafting = "adam";                ///< of Shampoo: or "sgd", "none"
  double weight_decay = 0.1;                    ///< of all but vectors
  std::string schedule = "cosine";              ///< or "wsd"
  std::int64_t warm_up = 50, steps = 500;
};

/// Rate of the matrices at its peak.
double peak_rate(const Method& method, const Settings& settings);

/// Four groups: matrices by the method; embeddings, and the head, by AdamW; vectors by AdamW
/// without decay. Equal recipes are merged: two virtual groups, or one for AdamW.
std::vector<shampoo::ParameterGroup> parameter_groups(const Method& method,
                                                      const Settings& settings,
                                                      std::vector<shampoo::Parameter> parameters);

}  // namespace gpt
