// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "shampoo/recipes.h"
#include "shampoo/routes.h"
#include "tests/support/models.h"

namespace shampoo::test {
namespace {

std::vector<Parameter> parameters_of(const std::string& model) {
  std::vector<Parameter> parameters;
  for (const Model::Tensor& tensor : load_model(model).tensors)
    parameters.push_back({.name = tensor.name, .shape = tensor.shape});
  return parameters;
}

/// Label by name.
std::map<std::string, std::string> labels_of(const std::vector<ParameterGroup>& groups) {
  std::map<std::string, std::string> labels;
  for (const ParameterGroup& group : groups)
    for (const Parameter& parameter : group.parameters) labels[parameter.name] = group.label;
  return labels;
}

const Rates matrix_rates{.learning_rate = 0.02, .weight_decay = 0.1};

TEST(TheRouterOfLanguageModels, KnowsTheModelsOfTheBenchmarks) {
  for (const char* model : {"gpt2-124m", "small", "many", "llama-1.3b"}) {
    const auto groups =
        routes::language_model(recipes::muon(), recipes::muon_rates()).groups(parameters_of(model));
    const auto labels = labels_of(groups);
    for (const Parameter& parameter : parameters_of(model)) {
      const bool is_table = parameter.name == "wte" || parameter.name == "wpe" ||
                            parameter.name == "embed" || parameter.name == "head" ||
                            parameter.name == "lm_head";
      EXPECT_EQ(labels.at(parameter.name), parameter.shape.size() < 2 ? "vectors"
                                           : is_table                 ? "embeddings"
                                                                      : "matrices")
          << model << " " << parameter.name;
    }
  }
}

TEST(TheRouterOfLanguageModels, KnowsNamesOfOtherLibraries) {
  std::vector<Parameter> parameters;
  const std::vector<std::string> tables = {"transformer.wte.weight",
                                           "transformer.wpe.weight",
                                           "lm_head.weight",
                                           "model.embed_tokens.weight",
                                           "gpt_neox.embed_in.weight",
                                           "embed_out.weight",
                                           "bert.embeddings.word_embeddings.weight",
                                           "bert.embeddings.position_embeddings.weight",
                                           "tok_embeddings.weight",
                                           "output.weight",
                                           "token_embd.weight",
                                           "wte/embedding",
                                           "shared.weight",
                                           "model.decoder.embed_positions.weight"};
  const std::vector<std::string> matrices = {
      "transformer.h.0.attn.c_attn.weight", "model.layers.3.self_attn.o_proj.weight",
      "layers.0.attention.wo.weight",       "bert.encoder.layer.0.attention.output.dense.weight",
      "encoder.head.0.query.weight",        "model.layers.0.mlp.shared_expert.up_proj.weight"};
  for (const std::string& name : tables) parameters.push_back({.name = name, .shape = {64, 8}});
  for (const std::string& name : matrices) parameters.push_back({.name = name, .shape = {8, 8}});
  parameters.push_back({.name = "model.norm.weight", .shape = {8}});
  parameters.push_back({.name = "lm_head.bias", .shape = {64}});
  parameters.push_back({.name = "model.scale", .shape = {1, 8}});
  const auto labels = labels_of(routes::language_model(Recipe(), matrix_rates).groups(parameters));
  for (const std::string& name : tables) EXPECT_EQ(labels.at(name), "embeddings") << name;
  for (const std::string& name : matrices) EXPECT_EQ(labels.at(name), "matrices") << name;
  for (const char* name : {"model.norm.weight", "lm_head.bias", "model.scale"})
    EXPECT_EQ(labels.at(name), "vectors") << name;
}

TEST(TheRouterOfLanguageModels, DecaysMatricesAndEmbeddingsOnly) {
  const std::vector<Parameter> parameters = {{.name = "bias", .shape = {8}},
                                             {.name = "wte", .shape = {64, 8}},
                                             {.name = "w", .shape = {8, 8}}};
  const auto groups = routes::language_model(recipes::soap(), matrix_rates).groups(parameters);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].recipe, recipes::adamw());
  EXPECT_EQ(groups[0].rates, Rates{.learning_rate = 0.02});
  EXPECT_EQ(groups[1].recipe, recipes::adamw());
  EXPECT_EQ(groups[1].rates, matrix_rates);
  EXPECT_EQ(groups[2].recipe, recipes::soap());
  EXPECT_EQ(groups[2].rates, matrix_rates);

  const Rates others{.learning_rate = 3e-4, .beta2 = 0.95, .weight_decay = 0.2};
  const auto given =
      routes::language_model(recipes::soap(), matrix_rates, others).groups(parameters);
  EXPECT_EQ(given[1].rates, others);
  EXPECT_EQ(given[0].rates, (Rates{.learning_rate = 3e-4, .beta2 = 0.95}));
}

TEST(TheRouterOfLanguageModels, CanBeKeptAsJson) {
  const Routes routes = routes::language_model(recipes::soap(), recipes::soap_rates());
  EXPECT_EQ(Routes::from_json(routes.to_json()).explain(parameters_of("gpt2-124m")),
            routes.explain(parameters_of("gpt2-124m")));
}

}  // namespace
}  // namespace shampoo::test
