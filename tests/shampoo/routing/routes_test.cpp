// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/shampoo/toy_model.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

std::vector<Parameter> named(const std::vector<std::string>& names,
                             std::vector<std::int64_t> shape = {2, 3}) {
  std::vector<Parameter> parameters;
  for (const std::string& name : names) parameters.push_back({.name = name, .shape = shape});
  return parameters;
}

std::vector<std::string> names_of(const ParameterGroup& group) {
  std::vector<std::string> names;
  for (const Parameter& parameter : group.parameters) names.push_back(parameter.name);
  return names;
}

using Names = std::vector<std::string>;

std::string refusal(const Routes& routes, const std::vector<Parameter>& parameters) {
  return error_of<std::invalid_argument>([&] { routes.groups(parameters); });
}

TEST(Routing, MatchesWholeNames) {
  Routes routes;
  routes.add({.pattern = "encoder"}, {.label = "one"});
  routes.add({.pattern = "encoder[./].*"}, {.label = "below"});
  routes.otherwise({.label = "rest"});

  const auto groups =
      routes.groups(named({"encoder/dense", "decoder", "encoder", "my.encoder", "encoder.bias"}));

  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].label, "one");
  EXPECT_EQ(names_of(groups[0]), Names{"encoder"});
  EXPECT_EQ(names_of(groups[1]), (Names{"encoder/dense", "encoder.bias"}));
  EXPECT_EQ(names_of(groups[2]), (Names{"decoder", "my.encoder"}));
}

TEST(Routing, PrefersAnExactNameToAPattern) {
  Routes routes;
  routes.add({.pattern = ".*"}, {.label = "all"});
  routes.add({.names = {"b"}}, {.label = "one"});
  const auto groups = routes.groups(named({"a", "b", "c"}));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(names_of(groups[0]), (Names{"a", "c"}));
  EXPECT_EQ(names_of(groups[1]), Names{"b"});
}

TEST(Routing, MatchesShapesOrdersAndPredicatesAndAllConditionsTogether) {
  Routes routes;
  int asked = 0;
  routes.add({.shape = std::vector<std::int64_t>{4, 4}}, {.label = "shape"});
  routes.add({.pattern = "w.*", .orders = {2}}, {.label = "matrices"});
  routes.add({.orders = {0, 1}}, {.label = "vectors"});
  routes.add({.predicate =
                  [&](const Parameter& parameter) {
                    ++asked;
                    return parameter.shape.size() == 4;
                  }},
             {.label = "predicate"});
  routes.otherwise({.label = "rest"});
  std::vector<Parameter> parameters = {
      {.name = "square", .shape = {4, 4}},       {.name = "w", .shape = {2, 3}},
      {.name = "matrix", .shape = {2, 3}},       {.name = "w.row", .shape = {1, 7}},
      {.name = "scalar", .shape = {}},           {.name = "one", .shape = {1, 1}},
      {.name = "filter", .shape = {2, 3, 3, 3}}, {.name = "cube", .shape = {2, 3, 4}}};
  const auto groups = routes.groups(parameters);
  ASSERT_EQ(groups.size(), 5u);
  EXPECT_EQ(names_of(groups[0]), Names{"square"});
  EXPECT_EQ(names_of(groups[1]), Names{"w"});
  EXPECT_EQ(names_of(groups[2]), (Names{"w.row", "scalar", "one"}));
  EXPECT_EQ(names_of(groups[3]), Names{"filter"});
  EXPECT_EQ(names_of(groups[4]), (Names{"matrix", "cube"}));
  EXPECT_EQ(asked, 8) << "once for each parameter";
}

TEST(Routing, RefusesWhatIsAmbiguousUnusedOrForgottenAllAtOnce) {
  Routes routes;
  routes.add({.pattern = "a.*"}, {.label = "first"});
  routes.add({.pattern = ".*z"}, {.label = "second"});
  routes.add({.pattern = "none"}, {});
  routes.add({.names = {"az2", "gone"}}, {});
  const std::string text = refusal(routes, named({"az", "b", "az2"}));
  EXPECT_EQ(text,
            "routes:\n"
            "parameter 'az' of shape (2, 3): rule 0 'first' (pattern 'a.*') and rule 1 'second' "
            "(pattern '.*z') match it; RoutesOptions::overlaps lets the first take it\n"
            "parameter 'b' of shape (2, 3): no rule matches it; otherwise() takes all that no rule "
            "matches, and RoutesOptions::unmatched leaves it out\n"
            "rule 2 (pattern 'none'): matches no parameter; RoutesOptions::unused accepts that\n"
            "rule 3 (name 'az2', name 'gone'): there is no parameter 'gone'; RoutesOptions::unused "
            "accepts that");
}

TEST(Routing, AcceptsEachOfTheseWhereAskedTo) {
  const auto add = [](Routes routes) {
    routes.add({.pattern = "a.*"}, {.label = "first"});
    routes.add({.pattern = ".*z"}, {.label = "second"});
    routes.add({.pattern = "none"}, {.label = "third"});
    return routes;
  };
  const auto parameters = named({"az", "b", "z"});
  EXPECT_EQ(refusal(add(Routes({.unused = true, .unmatched = true})), parameters).find("no rule"),
            std::string::npos);
  EXPECT_NE(refusal(add(Routes({.overlaps = true, .unmatched = true})), parameters).find("rule 2"),
            std::string::npos);
  EXPECT_NE(refusal(add(Routes({.overlaps = true, .unused = true})), parameters).find("'b'"),
            std::string::npos);
  const Routes all = add(Routes({.overlaps = true, .unused = true, .unmatched = true}));
  const auto groups = all.groups(parameters);
  ASSERT_EQ(groups.size(), 2u) << "a rule without parameters makes no group";
  EXPECT_EQ(names_of(groups[0]), Names{"az"});
  EXPECT_EQ(names_of(groups[1]), Names{"z"});
}

TEST(Routing, RefusesBadRulesWhenTheyAreAdded) {
  Routes routes;
  routes.add({.pattern = "a", .orders = {1}}, {.label = "a"});
  const auto refused = [&](const Match& match) {
    return error_of<std::invalid_argument>([&] { routes.add(match, {}); });
  };
  EXPECT_TRUE(refused({.pattern = "("})
                  .starts_with("rule 1: pattern: must be a regular expression, got '(': "));
  EXPECT_EQ(refused({.pattern = std::string(1001, '(')}),
            "rule 1: pattern: must have at most 1000 characters, got 1001");
  EXPECT_EQ(refused({.pattern = "a", .orders = {1}}),
            "rule 1: match: must not be that of rule 0 'a' (pattern 'a', order 1)");
  EXPECT_TRUE(refused({}).starts_with("rule 1: match: must have at least one condition"));
  EXPECT_THROW(routes.choose({.pattern = "b"}, {}), std::invalid_argument);
  routes.otherwise({});
  EXPECT_THROW(routes.otherwise({}), std::logic_error);
  EXPECT_EQ(routes.groups(named({"a"}, {3})).size(), 1u) << "what is refused is not added";
}

TEST(Routing, GivesAParameterTheRecipeThatItAsksFor) {
  Routes routes;
  routes.otherwise({.rates = {.learning_rate = 0.5, .grafting_beta2 = 0.9}, .label = "all"});
  std::vector<Parameter> parameters = named({"a", "b", "c", "d"});
  parameters[1].recipe = parameters[3].recipe = recipes::adamw();

  const auto groups = routes.groups(parameters);

  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(names_of(groups[0]), (Names{"a", "c"}));
  EXPECT_EQ(names_of(groups[1]), (Names{"b", "d"}));
  EXPECT_EQ(groups[1].recipe, recipes::adamw());
  EXPECT_EQ(groups[1].rates.learning_rate, 0.5);
  EXPECT_EQ(groups[1].rates.grafting_beta2, 0.999) << "AdamW does not read it";
}

TEST(Routing, FreezesByName) {
  Routes routes;
  routes.add({.pattern = "embed.*"}, {.label = "frozen", .frozen = true});
  routes.otherwise({});
  const auto groups = routes.groups(named({"embed.0", "w"}));
  EXPECT_TRUE(groups[0].parameters[0].frozen);
  EXPECT_FALSE(groups[1].parameters[0].frozen);
}

TEST(Routing, ExplainsItself) {
  Routes routes;
  routes.add({.pattern = "b.*", .orders = {1}}, {.label = "biases"});
  routes.add({.pattern = "none"}, {});
  std::vector<Parameter> parameters = {{.name = "bias", .shape = {3}},
                                       {.name = "weight", .shape = {1000, 3}}};
  EXPECT_EQ(routes.explain(parameters),
            "rule 0 'biases' (pattern 'b.*', order 1): 1 parameter, 3 values\n"
            "  parameter  shape  values\n"
            "  bias         (3)       3\n"
            "rule 1 (pattern 'none'): 0 parameters, 0 values\n"
            "no rule: 1 parameter, 3,000 values\n"
            "  parameter      shape  values\n"
            "  weight     (1000, 3)   3,000\n"
            "error: parameter 'weight' of shape (1000, 3): no rule matches it; otherwise() takes "
            "all that no rule matches, and RoutesOptions::unmatched leaves it out\n"
            "error: rule 1 (pattern 'none'): matches no parameter; RoutesOptions::unused accepts "
            "that\n");
  routes.otherwise({.label = "rest"});
  EXPECT_NE(routes.explain(parameters).find("otherwise 'rest': 1 parameter"), std::string::npos);
}

/// Rules of letters and stars against a matcher that tries every split.
bool matches_naively(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.starts_with(".*")) {
    for (std::size_t n = 0; n <= name.size(); ++n)
      if (matches_naively(pattern.substr(2), name.substr(n))) return true;
    return false;
  }
  return !name.empty() && name.front() == pattern.front() &&
         matches_naively(pattern.substr(1), name.substr(1));
}

TEST(Routing, AgreesWithANaiveMatcherOnRandomRules) {
  std::mt19937 random(1);
  const auto word = [&](bool stars) {
    std::string text;
    for (std::size_t n = random() % 4; text.size() < n + 1;)
      text += stars && random() % 3 == 0 ? ".*" : std::string(1, "ab"[random() % 2]);
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> names, patterns;
    while (names.size() < 6)
      if (const std::string name = word(false); std::ranges::find(names, name) == names.end())
        names.push_back(name);
    Routes routes({.overlaps = true, .unused = true, .unmatched = true});
    Routes strict({.unused = true, .unmatched = true});
    while (patterns.size() < 4)
      if (const std::string text = word(true);
          std::ranges::find(patterns, text) == patterns.end()) {
        routes.add({.pattern = text}, {.label = text});
        strict.add({.pattern = text}, {.label = text});
        patterns.push_back(text);
      }
    bool overlaps = false;
    std::vector<Names> expected(patterns.size());
    for (const std::string& name : names) {
      std::vector<std::size_t> matching;
      for (std::size_t p = 0; p < patterns.size(); ++p)
        if (matches_naively(patterns[p], name)) matching.push_back(p);
      overlaps |= matching.size() > 1;
      if (!matching.empty()) expected[matching.front()].push_back(name);
    }
    std::vector<Names> found(patterns.size());
    for (const ParameterGroup& group : routes.groups(named(names)))
      found[static_cast<std::size_t>(std::ranges::find(patterns, group.label) - patterns.begin())] =
          names_of(group);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(!refusal(strict, named(names)).empty(), overlaps);
  }
}

}  // namespace
}  // namespace shampoo::test
