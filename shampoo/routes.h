// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/group.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// What a rule does with the parameters that it takes.
struct Route {
  Recipe recipe = {};
  Rates rates = {};
  std::string label = {};  ///< of the group that they form
  bool frozen = false;     ///< sets Parameter::frozen

  bool operator==(const Route&) const = default;
};

/// Which parameters a rule takes: those for which every condition holds that is set. At least one
/// is.
struct Match {
  std::vector<std::string> names = {};  ///< any of these, exactly
  /// Regular expression of ECMAScript for the whole name: "encoder" does not match "encoder.bias",
  /// "encoder\\..*" does. At most 1000 characters.
  std::string pattern = {};
  std::optional<std::vector<std::int64_t>> shape = std::nullopt;
  /// The number of sides that are not 1 is any of these: 0 of a scalar, 1 of vectors, also of a
  /// tensor of shape 1 x n, 2 of matrices. Sides of 1 vanish when blocks are cut.
  std::vector<int> orders = {};
  std::function<bool(const Parameter&)> predicate = {};  ///< asked once for each parameter
};

/// What Routes accepts; everything else is an error.
struct RoutesOptions {
  bool overlaps = false;   ///< several rules match one parameter: the first takes it
  bool unused = false;     ///< a rule, or one of its names, matches no parameter
  bool unmatched = false;  ///< no rule matches a parameter: it is in no group, and not trained

  bool operator==(const RoutesOptions&) const = default;
};

/// Ordered rules that put parameters into groups. A rule that has the exact name of a parameter
/// takes it before all others.
///
///     Routes routes;
///     routes.add({.pattern = ".*\\.bias"}, {.recipe = recipes::adamw(), .label = "biases"});
///     routes.otherwise({.rates = {.weight_decay = 0.1}});
///     Optimizer optimizer(*backend, *ranks, routes.groups(parameters));
class Routes {
 public:
  using Choice = std::function<Route(const Parameter&)>;

  explicit Routes(const RoutesOptions& options = {}) : options_(options) {}

  /// Adds a rule. Throws std::invalid_argument that names the rule, counted from 0, for a match
  /// without a condition or one that an earlier rule has, and for a pattern that is no regular
  /// expression.
  Routes& add(Match match, Route route);
  /// The same with a route of each parameter's own; equal ones share a group. Asked once for each.
  Routes& choose(Match match, Choice choice);
  /// The rule for all that no other takes. It may take nothing. Throws std::logic_error the second
  /// time.
  Routes& otherwise(Route route);

  /// The groups of these parameters, rule by rule, in their order; a rule that takes none makes no
  /// group. A parameter with Parameter::recipe gets a group with that, and of its rule those rates
  /// that it reads. A pure function. Throws std::invalid_argument that has everything that the
  /// options do not accept: several rules for a parameter, by name and rules; rules without
  /// parameters; parameters without a rule.
  std::vector<ParameterGroup> groups(std::vector<Parameter> parameters) const;
  /// Which rule takes which parameter, with shapes and counts, for a person; then what groups()
  /// would throw.
  std::string explain(std::span<const Parameter> parameters) const;

  /// JSON with all rules, which from_json() reads. Throws std::invalid_argument for what JSON
  /// cannot say: a predicate, a choice, a rate that is not finite.
  std::string to_json() const;
  /// The rules of {"rules": [{"match": {...}, "recipe": ..., "rates": {...}, "label": "...",
  /// "frozen": true}], "otherwise": {...}, "accept": {"overlaps": true}}. Conditions, rates and
  /// options have the names of their fields here; a recipe is {"refresh.every": 20, ...} with the
  /// names of fields_of(), and may begin with {"name": "soap"}, a function of recipes.h, which is
  /// then the default of all else, and whose rates are the defaults of `rates`; or it is just
  /// "soap". Throws std::invalid_argument with a line for each fault: path, what is accepted, what
  /// is there.
  static Routes from_json(std::string_view json);

 private:
  friend class RuleMatches;
  friend class RoutesJson;
  struct Rule {
    Match match;
    Route route;
    Choice choice;  ///< in place of `route`, if there is one
  };
  Routes& add_rule(Rule rule);

  std::vector<Rule> rules_;
  std::optional<Route> otherwise_;
  RoutesOptions options_;
};

/// Routes for common models.
namespace routes {

/// For language models. Matrices, and tensors of more sides, take `recipe` with `rates`: Shampoo,
/// soap(), muon(). Embeddings, positions and heads take recipes::adamw() with `others`; vectors
/// and scalars, which are biases and gains, the same without weight decay. `others` unset: the
/// learning rate and the weight decay of `rates`, all else at its default.
///
/// Embeddings, positions and heads are matrices whose name ends, behind a dot, a slash or nothing,
/// in one of wte, wpe, lm_head (GPT-2, llm.c, Hugging Face), embed_tokens, embed_positions,
/// embed_in, embed_out, embed, embedding, embeddings, word_embeddings, position_embeddings,
/// token_type_embeddings, tok_embeddings, token_embedding, position_embedding, tok_emb, pos_emb,
/// token_embd, position_embd, shared, head, unembed, with or without one of weight, w, kernel,
/// embedding behind it; and "output" and "output.weight" (LLaMA). Labels are "embeddings",
/// "vectors" and "matrices".
Routes language_model(const Recipe& recipe, const Rates& rates,
                      const std::optional<Rates>& others = std::nullopt);

}  // namespace routes

}  // namespace shampoo
