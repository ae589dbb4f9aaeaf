// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <functional>
#include <set>

#include "shampoo/recipes.h"
#include "shampoo/validation/recipe_fields.h"

namespace shampoo::test {
namespace {

/// One change of every field of a recipe.
std::vector<std::function<void(Recipe&)>> changes() {
  const auto root = [](auto change) {
    return [change](Recipe& r) { change(std::get<RootInverse>(r.preconditioner)); };
  };
  const auto soap = [](const EigenvalueCorrected& kind) {
    return [kind](Recipe& r) { r.preconditioner = kind; };
  };
  return {
      [](Recipe&) {},
      soap({}),
      soap({.solver = Eigh{.perturb_before = false}}),
      soap({.solver = Eigh{.tolerance = 0.1}}),
      soap({.solver = Qr{}}),
      soap({.solver = Qr{.max_iterations = 2}}),
      soap({.solver = Qr{.tolerance = 0.1}}),
      soap({.exponents = {{.order = 2, .value = 0.25}}}),
      soap({.ignored_basis_change_dims = {{.order = 2, .dimensions = {0}}}}),
      soap({.ignored_basis_change_dims = {{.order = 2, .dimensions = {0, 1}}}}),
      soap({.trace_scaling = 0.5}),
      soap({.drop_weighting = true}),
      soap({.tolerated_failures = 4}),
      [](Recipe& r) { r.preconditioner = Eigendecomposed{}; },
      [](Recipe& r) { r.preconditioner = Eigendecomposed{.solver = Eigh{.relative_floor = 0.1}}; },
      [](Recipe& r) { r.preconditioner = KullbackLeibler{}; },
      [](Recipe& r) { r.preconditioner = KullbackLeibler{.normalize = true}; },
      [](Recipe& r) { r.preconditioner = KullbackLeibler{.form = Eigendecomposed{}}; },
      root([](RootInverse& p) { p.solver = Eigen{}; }),
      root([](RootInverse& p) { p.solver = Eigen{.perturb_before = false}; }),
      root([](RootInverse& p) { p.solver = Eigen{.pseudo_inverse = PseudoInverse{}}; }),
      root([](RootInverse& p) {
        p.solver = Eigen{.pseudo_inverse = PseudoInverse{.relative_tolerance = std::nullopt}};
      }),
      root([](RootInverse& p) {
        p.solver = Eigen{.pseudo_inverse = PseudoInverse{.absolute_tolerance = 1e-9}};
      }),
      root([](RootInverse& p) { p.solver = Eigen{.relative_floor = 0.1}; }),
      root([](RootInverse& p) { p.solver = Eigen{.relative_floor = 0.1 + 1e-16}; }),
      root([](RootInverse& p) { p.solver = CoupledNewton{}; }),
      root([](RootInverse& p) { p.solver = CoupledNewton{.max_iterations = 7}; }),
      root([](RootInverse& p) { p.solver = CoupledNewton{.tolerance = 1e-7}; }),
      root([](RootInverse& p) { p.solver = CoupledHigherOrder{}; }),
      root([](RootInverse& p) { p.solver = CoupledHigherOrder{.relative_epsilon = 1}; }),
      root([](RootInverse& p) { p.solver = CoupledHigherOrder{.absolute_epsilon = 1}; }),
      root([](RootInverse& p) { p.solver = CoupledHigherOrder{.order = 4}; }),
      root([](RootInverse& p) { p.solver = Minimax{}; }),
      root([](RootInverse& p) { p.solver = Minimax{.kappa_max = 1e6}; }),
      root([](RootInverse& p) { p.solver = Minimax{.precision = MinimaxPrecision::accurate}; }),
      root([](RootInverse& p) { p.exponents = {{.order = 2, .value = 0.5}}; }),
      root([](RootInverse& p) { p.exponents = {{.order = 1, .value = 0.5}}; }),
      root([](RootInverse& p) { p.exponents = {{.order = 2, .dimension = 0, .value = 0.5}}; }),
      root([](RootInverse& p) { p.trace_scaling = 0.5; }),
      root([](RootInverse& p) { p.drop_weighting = true; }),
      root([](RootInverse& p) { p.tolerated_failures = 4; }),
      root([](RootInverse& p) { p.precondition_1d = false; }),
      root([](RootInverse& p) { p.root_type = Type::float16; }),
      [](Recipe& r) { r.preconditioner = Sgd{}; },
      [](Recipe& r) { r.preconditioner = AdaGrad{}; },
      [](Recipe& r) { r.preconditioner = RmsProp{}; },
      [](Recipe& r) { r.preconditioner = Adam{}; },
      [](Recipe& r) { r.preconditioner = Adam{.drop_weighting = true}; },
      [](Recipe& r) { r.preconditioner = Sign{}; },
      [](Recipe& r) { r.preconditioner = AdaGrad{.initial_accumulator = 0.1}; },
      [](Recipe& r) { r.preconditioner = RmsProp{.centered = true}; },
      [](Recipe& r) { r.preconditioner = Adam{.amsgrad = true}; },
      [](Recipe& r) { r.grafting = std::nullopt; },
      [](Recipe& r) { r.grafting = Sgd{}; },
      [](Recipe& r) { r.grafting = AdaGrad{}; },
      [](Recipe& r) { r.grafting = RmsProp{}; },
      [](Recipe& r) { r.grafting = RmsProp{.drop_weighting = true}; },
      [](Recipe& r) { r.grafting = Adam{.drop_weighting = true}; },
      [](Recipe& r) { r.averaging = PrimalAveraging{}; },
      [](Recipe& r) { r.averaging = ScheduleFree{}; },
      [](Recipe& r) { r.averaging = ScheduleFree{.power = 1}; },
      [](Recipe& r) { r.weight_decay = WeightDecay::l2; },
      [](Recipe& r) { r.weight_decay = WeightDecay::corrected; },
      [](Recipe& r) { r.weight_decay = WeightDecay::independent; },
      [](Recipe& r) { r.weight_decay = WeightDecay::plain; },
      [](Recipe& r) { r.averaging = Momentum{}; },
      [](Recipe& r) { r.averaging = Momentum{.nesterov = true}; },
      [](Recipe& r) { r.averaging = Momentum{.undamped_start = true}; },
      [](Recipe& r) { r.refresh.every = 11; },
      [](Recipe& r) { r.refresh.first = 11; },
      [](Recipe& r) { r.refresh.first = std::nullopt; },
      [](Recipe& r) { r.refresh.staggered = !r.refresh.staggered; },
      [](Recipe& r) { r.blocking.size = 7; },
      [](Recipe& r) { r.blocking.size = grouping::never_cut; },
      [](Recipe& r) { r.blocking.target_order = 3; },
      [](Recipe& r) { r.blocking.target_order = grouping::any_order; },
      [](Recipe& r) { r.bias_correction = false; },
      [](Recipe& r) { r.arithmetic = Arithmetic::float64; },
      [](Recipe& r) { r.communication.type = Type::bfloat16; },
      [](Recipe& r) { r.communication.values = true; },
      [](Recipe& r) { r.maximize = true; },
      [](Recipe& r) { r.filter = false; },
  };
}

TEST(RecipeText, DiffersWhereRecipesDiffer) {
  std::set<std::string> texts;
  for (const auto& change : changes()) {
    Recipe recipe;
    change(recipe);
    texts.insert(canonical_text(recipe));
  }
  EXPECT_EQ(texts.size(), changes().size());
}

TEST(RecipeText, DoesNotDependOnTheLocale) {
  Recipe recipe;
  recipe.preconditioner = RootInverse{.solver = Eigen{.relative_floor = 0.25}};
  const std::string before = canonical_text(recipe);

  const std::string old = std::setlocale(LC_ALL, nullptr);
  std::setlocale(LC_ALL, "");
  const std::string inside = canonical_text(recipe);
  std::setlocale(LC_ALL, old.c_str());

  EXPECT_EQ(inside, before);
  EXPECT_NE(before.find("0.25"), std::string::npos) << before;
}

/// Everything but the kind of this field is at its default.
template <typename Kind>
void expect_defaults(const Recipe& recipe, const std::string& field) {
  for (const auto& [name, value, usual] : fields_with_defaults(recipe)) {
    if (name == field)
      EXPECT_EQ(value, Kind::name);
    else
      EXPECT_EQ(value, usual) << name << " of " << Kind::name;
  }
}
template <typename... Kinds, typename Field>
void expect_defaults_of_all(const std::variant<Kinds...>*, Field Recipe::*field,
                            const std::string& name) {
  const auto check = [&]<typename Kind>(Kind kind) {
    Recipe recipe;
    recipe.*field = std::move(kind);
    expect_defaults<Kind>(recipe, name);
  };
  (check(Kinds{}), ...);
}

TEST(RecipeText, MayLeaveOutAllFields) {
  EXPECT_EQ(recipe_from_text("recipe()"), Recipe{});
  EXPECT_EQ(recipe_from_text("recipe( )"), recipe_from_text("recipe"));
}

TEST(RecipeText, HasTheDefaultOfEveryFieldBesideIt) {
  expect_defaults_of_all(static_cast<Preconditioner*>(nullptr), &Recipe::preconditioner,
                         "preconditioner");
  expect_defaults_of_all(static_cast<Diagonal*>(nullptr), &Recipe::grafting, "grafting");
  expect_defaults_of_all(static_cast<Averaging*>(nullptr), &Recipe::averaging, "averaging");
  expect_defaults_of_all(static_cast<ValueAveraging*>(nullptr), &Recipe::value_averaging,
                         "value_averaging");
  expect_defaults_of_all(static_cast<UpdateScaling*>(nullptr), &Recipe::update_scaling,
                         "update_scaling");
  expect_defaults_of_all(static_cast<Projection*>(nullptr), &Recipe::projection, "projection");

  const auto fields = fields_with_defaults(
      {.preconditioner =
           KullbackLeibler{.form = Eigendecomposed{.solver = Qr{.max_iterations = 2},
                                                   .exponents = {{.dimension = 1, .value = 0.5}}}},
       .grafting = std::nullopt});
  const auto has = [&](const std::string& name, const std::string& value,
                       const std::string& usual) {
    const auto found = std::ranges::find(fields, name, &RecipeFieldDefault::name);
    ASSERT_NE(found, fields.end()) << name;
    EXPECT_EQ(found->value, value) << name;
    EXPECT_EQ(found->usual, usual) << name;
  };
  has("preconditioner", "kullback_leibler", "root_inverse");
  has("preconditioner.form", "eigendecomposed", "root_inverse");
  has("preconditioner.form.solver", "qr", "eigh");
  has("preconditioner.form.solver.max_iterations", "2", "1");
  has("preconditioner.form.exponents", "1", "0");
  has("preconditioner.form.exponents.0.order", "2", "2");
  has("preconditioner.form.exponents.0.dimension", "1", "none");
  has("preconditioner.form.trace_scaling", "none", "none");
  has("grafting", "none", "adam");
  has("refresh.every", "10", "10");
}

TEST(RecipeText, NamedRecipesAreDistinct) {
  EXPECT_NE(canonical_text(recipes::adamw()), canonical_text(recipes::reference()));
  EXPECT_NE(canonical_text(recipes::adamw()), canonical_text(Recipe()));
}

}  // namespace
}  // namespace shampoo::test
