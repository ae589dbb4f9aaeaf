// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "shampoo/recipes.h"
#include "shampoo/routes.h"
#include "tests/support/named_recipes.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

std::vector<Parameter> some_parameters() {
  return {{.name = "wte", .shape = {50, 8}},  {.name = "h0.w", .shape = {8, 8}},
          {.name = "h0.b", .shape = {8}},     {.name = "scale", .shape = {}},
          {.name = "table", .shape = {3, 5}}, {.name = "extra", .shape = {2, 2, 2}}};
}

void expect_equal(const std::vector<ParameterGroup>& a, const std::vector<ParameterGroup>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t g = 0; g < a.size(); ++g) {
    EXPECT_EQ(a[g].recipe, b[g].recipe);
    EXPECT_EQ(a[g].rates, b[g].rates);
    EXPECT_EQ(a[g].label, b[g].label);
    ASSERT_EQ(a[g].parameters.size(), b[g].parameters.size());
    for (std::size_t p = 0; p < a[g].parameters.size(); ++p) {
      EXPECT_EQ(a[g].parameters[p].name, b[g].parameters[p].name);
      EXPECT_EQ(a[g].parameters[p].frozen, b[g].parameters[p].frozen);
    }
  }
}

Routes with_all_conditions(const Recipe& recipe, const Rates& rates) {
  Routes routes({.overlaps = true, .unused = true, .unmatched = true});
  routes.add({.names = {"wte", "\"odd\" näme"}}, {.recipe = recipe, .rates = rates, .label = "a"});
  routes.add({.pattern = "h0\\.[wb]", .orders = {1, 2}},
             {.rates = {.learning_rate = 0.1, .beta3 = 1.0 / 3, .peak_learning_rate = 1e-300}});
  routes.add({.shape = std::vector<std::int64_t>{3, 5}}, {.label = "frozen", .frozen = true});
  routes.add({.shape = std::vector<std::int64_t>{}}, {.recipe = recipes::adamw()});
  return routes;
}

TEST(RoutesAsJson, AreTheSameAgain) {
  for (const std::string& name : recipe_names()) {
    const NamedRecipe named = named_recipe(name, 256, 20);
    Routes routes = with_all_conditions(named.recipe, named.rates);
    for (const bool has_rest : {false, true}) {
      if (has_rest) routes.otherwise({.recipe = named.recipe, .label = "rest"});
      const std::string text = routes.to_json();
      const Routes again = Routes::from_json(text);
      EXPECT_EQ(again.to_json(), text) << name;
      expect_equal(again.groups(some_parameters()), routes.groups(some_parameters()));
      EXPECT_EQ(again.explain(some_parameters()), routes.explain(some_parameters()));
    }
  }
}

TEST(RoutesAsJson, AreWrittenByHandInAFewLines) {
  const Routes routes = Routes::from_json(R"({
    "rules": [
      {"match": {"orders": [0, 1]}, "recipe": "adamw", "rates": {"learning_rate": 3e-4}},
      {"match": {"names": ["wte"]}, "recipe": {"name": "muon", "preconditioner.scale": "spectral"},
       "rates": {"beta1": 0.5}, "label": "muon"},
      {"match": {"shape": [3, 5]}, "recipe": {"refresh.every": 20, "refresh.first": "none",
        "preconditioner.solver": "eigen", "bias_correction": false}}
    ],
    "otherwise": {"recipe": "soap", "frozen": true}
  })");
  const auto groups = routes.groups(some_parameters());
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].recipe, recipes::adamw());
  EXPECT_EQ(groups[0].rates, Rates{.learning_rate = 3e-4});
  Recipe muon = recipes::muon();
  std::get<Spectral>(muon.preconditioner).scale = SpectralScale::spectral;
  EXPECT_EQ(groups[1].recipe, muon);
  Rates rates = recipes::muon_rates();
  rates.beta1 = 0.5;
  EXPECT_EQ(groups[1].rates, rates);
  const Recipe own{.preconditioner = RootInverse{.solver = Eigen{}},
                   .refresh = {.every = 20, .first = std::nullopt},
                   .bias_correction = false};
  EXPECT_EQ(groups[2].recipe, own);
  EXPECT_EQ(groups[3].recipe, recipes::soap());
  EXPECT_TRUE(groups[3].parameters[0].frozen);
}

TEST(RoutesAsJson, CannotHaveFunctionsAndNumbersThatAreNone) {
  Routes predicate, choice, rate;
  predicate.add({.pattern = "a"}, {});
  predicate.add({.predicate = [](const Parameter&) { return true; }}, {});
  EXPECT_EQ(error_of<std::invalid_argument>([&] { predicate.to_json(); }),
            "rules[1].match.predicate: a function cannot be written");
  choice.choose({.pattern = "a"}, [](const Parameter&) { return Route(); });
  EXPECT_EQ(error_of<std::invalid_argument>([&] { choice.to_json(); }),
            "rules[0]: a choice, a function, cannot be written");
  rate.otherwise({.rates = {.beta1 = std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_EQ(error_of<std::invalid_argument>([&] { rate.to_json(); }),
            "otherwise.rates.beta1: must be finite to be written");
}

TEST(RoutesAsJson, SayWhereAndWhatIsWrong) {
  const std::pair<std::string, std::string> all[] = {
      {R"({"rules": 3})", "rules: must be a list, got 3"},
      {R"([1])", "routes: must be an object, got [1]"},
      {R"({"rule": []})",
       "routes.rule: there is no such field; there are rules, otherwise, accept"},
      {R"({"rules": [{}]})", "rules[0]: rule 0: match: must have at least one condition"},
      {R"({"rules": [{"match": {"pattern": "a"}}, {"match": {"pattern": "("}}]})",
       "rules[1]: rule 1: pattern: must be a regular expression, got '('"},
      {R"({"rules": [{"match": {"patern": "a"}}]})",
       "rules[0].match.patern: there is no such field; there are names, pattern, shape, orders"},
      {R"({"rules": [{"match": {"orders": [-1]}}]})",
       "rules[0].match.orders: must be a list of whole numbers >= 0, got [-1]"},
      {R"({"rules": [{"match": {"names": "a"}}]})",
       "rules[0].match.names: must be a list of strings, got \"a\""},
      {R"({"otherwise": {"recipe": "adam_w"}})", "otherwise.recipe: must be one of shampoo, soap"},
      {R"({"otherwise": {"recipe": {"preconditioner.solver": "qr"}}})",
       "otherwise.recipe.preconditioner.solver: must be one of automatic, eigen, coupled_newton, "
       "coupled_higher_order, minimax, tridiagonal, got 'qr'"},
      {R"({"otherwise": {"recipe": {"refresh": {"every": 3}}}})",
       "otherwise.recipe.refresh: must be a string, a number, a list, true or false, got "
       "{\"every\":3}"},
      {R"({"otherwise": {"rates": {"lr": 1}}})",
       "otherwise.rates.lr: there is no such field; there are learning_rate, beta1"},
      {R"({"otherwise": {"rates": {"beta1": null}}})",
       "otherwise.rates.beta1: must be a number, got null"},
      {R"({"otherwise": {"rates": {"beta3": "x"}}})",
       "otherwise.rates.beta3: must be a number or null, got \"x\""},
      {R"({"otherwise": {"label": 1, "frozen": 0}})",
       "otherwise.label: must be a string, got 1\notherwise.frozen: must be true or false, got 0"},
      {R"({"accept": {"unused": "yes"}})", "accept.unused: must be true or false, got \"yes\""},
      {R"({"otherwise": {"rates": {"beta1": 0.5, "beta1": 0.6}}})",
       "\"beta1\" is there twice in one object"}};
  for (const auto& bad : all) {
    const std::string text = error_of<std::invalid_argument>([&] { Routes::from_json(bad.first); });
    EXPECT_TRUE(text.starts_with("routes:\n" + bad.second)) << bad.first << ": " << text;
  }
  const std::string deep(100'000, '[');
  for (const std::string& json :
       {std::string(), std::string("{"), std::string("{\"rules\": [}"), std::string("\xff"),
        std::string("{} {}"), std::string("{}\0 }", 5), deep}) {
    const std::string text = error_of<std::invalid_argument>([&] { Routes::from_json(json); });
    EXPECT_TRUE(text.starts_with("routes: no JSON: ")) << text;
  }
}

}  // namespace
}  // namespace shampoo::test
