// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <type_traits>

#include "shampoo/recipes.h"
#include "tests/support/named_recipes.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

/// Fills every field of a recipe, of all kinds, at random.
class RandomFields {
 public:
  explicit RandomFields(unsigned seed) : random_(seed) {}

  template <typename Options>
  requires requires { Options::name; }
  void fill(Options& options) {
    Options::for_each_field([&](std::string_view, auto& value) { fill(value); }, options);
  }
  template <typename... Kinds>
  void fill(std::variant<Kinds...>& kind) {
    const std::size_t chosen = below(sizeof...(Kinds));
    std::size_t k = 0;
    ((k++ == chosen ? void(kind = Kinds{}) : void()), ...);
    std::visit([&](auto& options) { fill(options); }, kind);
  }
  template <typename Value>
  void fill(std::optional<Value>& value) {
    value.reset();
    if (below(3) > 0) fill(value.emplace());
  }
  template <typename Element>
  void fill(std::vector<Element>& list) {
    list.resize(below(4));
    for (Element& element : list) fill(element);
  }
  template <std::size_t count>
  void fill(std::array<double, count>& list) {
    for (double& number : list) fill(number);
  }
  void fill(double& number) {
    const double known[] = {0, 1, 0.1, 1e-300, 5e-324, std::numeric_limits<double>::infinity()};
    number = below(3) == 0 ? known[below(6)] : std::normal_distribution<double>()(random_) * 1e-7;
  }
  void fill(bool& value) { value = below(2) == 1; }
  template <typename Number>
  requires std::is_integral_v<Number>
  void fill(Number& number) {
    number = below(3) == 0 ? std::numeric_limits<Number>::max() : static_cast<Number>(below(100));
  }
  void fill(Type& value) { value = static_cast<Type>(below(4)); }
  void fill(WeightDecay& value) { value = static_cast<WeightDecay>(below(4)); }
  void fill(Arithmetic& value) { value = static_cast<Arithmetic>(below(2)); }
  void fill(SpectralScale& value) { value = static_cast<SpectralScale>(below(3)); }
  void fill(MinimaxPrecision& value) { value = static_cast<MinimaxPrecision>(below(2)); }

 private:
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }
  std::mt19937_64 random_;
};

TEST(RecipeFrom, IsTheInverseOfFieldsOfForNamedRecipes) {
  for (const std::string& name : recipe_names()) {
    const Recipe recipe = named_recipe(name, 256, 20).recipe;
    EXPECT_EQ(recipe_from(fields_of(recipe)), recipe) << name;
  }
}

TEST(RecipeFrom, IsTheInverseOfFieldsOfForAllFieldsOfAllKinds) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Recipe recipe, base;
    RandomFields random(seed);
    random.fill(recipe);
    random.fill(base);
    EXPECT_EQ(recipe_from(fields_of(recipe)), recipe) << canonical_text(recipe);
    EXPECT_EQ(recipe_from_text(canonical_text(recipe)), recipe) << canonical_text(recipe);
    EXPECT_EQ(recipe_from(fields_of(recipe), base), recipe) << canonical_text(recipe);
    if (HasFailure()) return;
  }
}

TEST(RecipeFrom, TakesWhatIsNotGivenFromTheBase) {
  const std::vector<RecipeField> fields = {{"refresh.every", "20"},
                                           {"preconditioner.solver", "qr"}};
  Recipe expected = recipes::soap();
  expected.refresh.every = 20;
  std::get<EigenvalueCorrected>(expected.preconditioner).tolerated_failures = 5;
  Recipe base = recipes::soap();
  std::get<EigenvalueCorrected>(base.preconditioner).tolerated_failures = 5;
  EXPECT_EQ(recipe_from(fields, base), expected);
  const std::vector<RecipeField> other = {{"preconditioner", "sign"}};
  base.preconditioner = Sign{};
  EXPECT_EQ(recipe_from(other, recipes::soap()).preconditioner, base.preconditioner);
}

TEST(RecipeFromText, LeavesWhatItDoesNotHaveAtDefaults) {
  Recipe expected = {.refresh = {.every = 20}};
  EXPECT_EQ(recipe_from_text("recipe(refresh=refresh(every=20))"), expected);
  EXPECT_EQ(recipe_from_text(" recipe ( refresh = refresh( every = 20 ) ) "), expected);
  EXPECT_EQ(recipe_from_text("recipe"), Recipe());
}

TEST(RecipeFromText, SaysWhereATextIsNone) {
  const auto error = [](const std::string& text) {
    return error_of<std::invalid_argument>([&] { recipe_from_text(text); });
  };
  EXPECT_EQ(error("soup(x=1)"), "recipe: must have 'recipe' at character 4, got '(x=1)'");
  EXPECT_EQ(error("recipe(refresh)"), "recipe: must have '=' at character 14, got ')'");
  EXPECT_EQ(error("recipe(filter=true"), "recipe: must have ',' or ')' at character 18, got ''");
  EXPECT_EQ(error("recipe(filter=)"),
            "recipe: must have a name or a value at character 14, got ')'");
  EXPECT_EQ(error("recipe(filter=true))"), "recipe: must have the end at character 19, got ')'");
  EXPECT_EQ(error("recipe(a=[1, 2)"), "recipe: must have ',' or ']' at character 14, got ')'");
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += i == 0 ? "recipe" : "(a=b";
  EXPECT_EQ(error(deep).substr(0, 31), "recipe: must have fewer levels ");
  EXPECT_EQ(error("recipe(refresh=refresh(evry=20))").substr(0, 46),
            "recipe.refresh.evry: there is no such field; t");
}

struct Bad {
  std::vector<RecipeField> fields;
  std::string message;
};

TEST(RecipeFrom, SaysWhatItCannotRead) {
  const std::vector<Bad> all = {
      {{{"preconditioner", "shampo"}},
       "recipe.preconditioner: must be one of root_inverse, eigendecomposed, eigenvalue_corrected, "
       "kullback_leibler, sgd, adagrad, rmsprop, adam, sign, spectral, got 'shampo'"},
      {{{"grafting", "muon"}},
       "recipe.grafting: must be none, sgd, adagrad, rmsprop, adam, got 'muon'"},
      {{{"preconditioner.solver", "eigen"}, {"preconditioner.solver.pseudo_inverse", "yes"}},
       "recipe.preconditioner.solver.pseudo_inverse: must be none, pseudo_inverse, got 'yes'"},
      {{{"refresh.every", "10.5"}},
       "recipe.refresh.every: must be a whole number in [-9223372036854775808, "
       "9223372036854775807], got '10.5'"},
      {{{"refresh.every", "9223372036854775808"}},
       "recipe.refresh.every: must be a whole number in [-9223372036854775808, "
       "9223372036854775807], got '9223372036854775808'"},
      {{{"filter", "True"}}, "recipe.filter: must be true or false, got 'True'"},
      {{{"weight_decay", "0.1"}},
       "recipe.weight_decay: must be one of decoupled, l2, corrected, independent, plain, got "
       "'0.1'"},
      {{{"preconditioner.root_type", "half"}},
       "recipe.preconditioner.root_type: must be none or one of float64, float32, bfloat16, "
       "float16, got 'half'"},
      {{{"preconditioner.exponents", "1000000000"}},
       "recipe.preconditioner.exponents: must be a count of elements with fields, got "
       "'1000000000'"},
      {{{"preconditioner", "spectral"}, {"preconditioner.solver.coefficients", "[1, 2]"}},
       "recipe.preconditioner.solver.coefficients: must be a list of 3 numbers, got '[1, 2]'"},
      {{{"refresh.evry", "1"}},
       "recipe.refresh.evry: there is no such field; there are refresh.every, refresh.first, "
       "refresh.staggered"},
      {{{"filter", "true"}, {"filter", "false"}}, "recipe.filter: is there twice"}};
  for (const Bad& bad : all)
    EXPECT_EQ(error_of<std::invalid_argument>([&] { recipe_from(bad.fields); }), bad.message);
}

TEST(RecipeFrom, SaysEverythingAtOnce) {
  const std::string text = error_of<std::invalid_argument>([] {
    recipe_from(std::vector<RecipeField>{{"filter", "2"}, {"maximize", ""}, {"momentum", "0.9"}});
  });
  EXPECT_TRUE(text.starts_with("recipe.maximize: must be true or false, got ''\nrecipe.filter"))
      << text;
  EXPECT_NE(text.find("\nrecipe.momentum: there is no such field"), std::string::npos) << text;
}

}  // namespace
}  // namespace shampoo::test
