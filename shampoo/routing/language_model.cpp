// SPDX-License-Identifier: Apache-2.0
#include "shampoo/recipes.h"
#include "shampoo/routes.h"

namespace shampoo::routes {

namespace {

constexpr const char* embeddings =
    R"(((.*[./])?(wte|wpe|lm_head|embed_tokens|embed_positions|embed_in|embed_out|embed|embeddings?)"
    R"(|(word|position|token_type|tok)_embeddings|(token|position)_embedding|tok_emb|pos_emb)"
    R"(|token_embd|position_embd|shared|head|unembed)|output)([./](weight|w|kernel|embedding))?)";

}  // namespace

Routes language_model(const Recipe& recipe, const Rates& rates,
                      const std::optional<Rates>& others) {
  const Rates usual = others.value_or(
      Rates{.learning_rate = rates.learning_rate, .weight_decay = rates.weight_decay});
  Rates undecayed = usual;
  undecayed.weight_decay = 0;
  Routes routes({.unused = true});
  routes.add({.orders = {0, 1}},
             {.recipe = recipes::adamw(), .rates = undecayed, .label = "vectors"});
  routes.add({.pattern = embeddings, .orders = {2}},
             {.recipe = recipes::adamw(), .rates = usual, .label = "embeddings"});
  routes.otherwise({.recipe = recipe, .rates = rates, .label = "matrices"});
  return routes;
}

}  // namespace shampoo::routes
