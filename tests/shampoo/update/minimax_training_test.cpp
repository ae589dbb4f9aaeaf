// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/solvers/inverse_root.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/support/counting_backend.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

Recipe with_solver(const Solver& solver) {
  Recipe recipe = quick_recipe();
  recipe.refresh.staggered = false;  // phases follow the cost of refreshes, hence the solver
  recipe.preconditioner = RootInverse{.solver = solver};
  return recipe;
}

struct Trained {
  std::vector<std::vector<float>> values;
  Statistics statistics;
};

Trained train(kernels::Backend& backend, const Solver& solver, double epsilon) {
  const auto ranks = single_rank_communicator();
  ToyModel<float> model(awkward_shapes());
  Optimizer optimizer(
      backend, *ranks,
      {model.group(with_solver(solver), {.learning_rate = 1e-2, .epsilon = epsilon})});
  for (int step = 0; step < 12; ++step) {
    model.new_gradients();
    EXPECT_TRUE(optimizer.step().applied());
  }
  return {model.values(), optimizer.statistics()};
}

/// A backend on which products are cheap, and nothing else is.
class ProductsBackend : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  bool prefers_products() const override { return true; }
  bool has_tridiagonal_roots() const override { return false; }
};

TEST(TrainingWithMinimax, StaysNearTrainingWithEigenvalues) {
  const auto backend = cpu_kernels({.threads = 2});
  // With epsilon a thousandth of the gradients' squares, neither solver's floor takes part.
  const Trained eigen = train(*backend, Eigen{}, 1e-3);
  const Trained minimax = train(*backend, Minimax{}, 1e-3);
  EXPECT_EQ(minimax.statistics.refreshes, eigen.statistics.refreshes);
  EXPECT_EQ(minimax.statistics.kept_roots, 0);
  // Roots differ by up to 3e-4 for each of at most 4 dimensions; a direction keeps its length by
  // grafting, and 12 steps of 1e-2 move a value by about 0.12.
  for (std::size_t t = 0; t < eigen.values.size(); ++t)
    for (std::size_t i = 0; i < eigen.values[t].size(); ++i)
      EXPECT_NEAR(minimax.values[t][i], eigen.values[t][i], 1e-3) << t << ' ' << i;
}

/// Factors of one to four gradients, whose other eigenvalues are what rounding makes of 0.
TEST(TrainingWithMinimax, KeepsNoRootOfAFactorOfFewGradients) {
  const auto backend = cpu_kernels({.threads = 2});
  const auto ranks = single_rank_communicator();
  Recipe recipe = with_solver(Minimax{});
  recipe.refresh = {.every = 1, .first = 1};
  recipe.blocking.target_order = grouping::any_order;
  ToyModel<float> model({{4}, {8}, {13}, {64}, {300}, {512}, {9, 8}, {64, 3}, {300, 5}});
  for (int seed = 0; seed < 5; ++seed) {
    Optimizer optimizer(*backend, *ranks, {model.group(recipe, {.epsilon = 1e-30})});
    for (int step = 0; step < 4; ++step) {
      model.new_gradients();
      optimizer.step();
    }
    EXPECT_EQ(optimizer.statistics().kept_roots, 0);
    EXPECT_GT(optimizer.statistics().refreshes, 0);
  }
}

TEST(TrainingWithMinimax, CountsTheFactorsWhoseRelativeShiftWon) {
  const auto backend = cpu_kernels({.threads = 2});
  const Statistics raised = train(*backend, Minimax{.kappa_max = 100}, 1e-12).statistics;
  EXPECT_EQ(raised.raised_eigenvalues, raised.refreshes);
  EXPECT_EQ(train(*backend, Minimax{}, 1e3).statistics.raised_eigenvalues, 0);
}

TEST(TrainingWithMinimax, IsWhatAutomaticMeansWhereProductsAreCheap) {
  const auto cpu = cpu_kernels({.threads = 2});
  ProductsBackend backend(*cpu);
  EXPECT_EQ(train(backend, Automatic{}, 1e-6).values, train(*cpu, Minimax{}, 1e-6).values);
  EXPECT_NE(train(backend, Automatic{}, 1e-6).values, train(*cpu, Automatic{}, 1e-6).values);
}

TEST(TrainingWithMinimax, AutomaticTakesEigenvaluesForOtherExponentsAndFloat64) {
  const auto cpu = cpu_kernels({.threads = 1});
  ProductsBackend backend(*cpu);
  const double odd[] = {0.3183}, plain[] = {0.25};
  using kernels::resolved;
  EXPECT_TRUE(std::holds_alternative<Eigen>(resolved(Automatic{}, backend, Type::float32, odd)));
  EXPECT_TRUE(std::holds_alternative<Eigen>(resolved(Automatic{}, backend, Type::float64, plain)));
  EXPECT_EQ(resolved(Automatic{}, backend, Type::float32, plain), Solver(Minimax{}));
}

TEST(TrainingWithMinimax, KeepsTheOldRootsAndThrowsAfterTheToleratedFailures) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  ToyModel<float> model({{5, 7}});
  Recipe recipe = with_solver(Minimax{});
  recipe.refresh = {.every = 1, .first = 1};
  std::get<RootInverse>(recipe.preconditioner).tolerated_failures = 1;
  Optimizer optimizer(*backend, *ranks, {model.group(recipe, {.beta2 = 1})});
  optimizer.step();
  // Squares of 1e25 are not finite in float32, and stay so.
  for (float& x : model.tensors[0].gradient) x = 1e25F;
  EXPECT_TRUE(optimizer.step().applied());
  EXPECT_EQ(optimizer.statistics().kept_roots, 2);
  EXPECT_THROW(optimizer.step(), NumericalError);
  EXPECT_EQ(optimizer.statistics().refreshes, 2);
}

TEST(TrainingWithMinimax, GoesOnFromAStateDictWithTheSameBitsOnAnyNumberOfRanks) {
  const Trainee trainee{.recipes = {with_solver(Minimax{}), with_solver(Minimax{.kappa_max = 1e3})},
                        .absent_every = 4};
  const Arrangement one{.ranks = 1, .groups = 2};
  const End<float> undisturbed = train_first<float>(trainee, one, steps_before + steps_after);
  for (const int before : {1, 3}) {
    const End<float> saved = train_first<float>(trainee, {.ranks = before, .groups = 2});
    for (const int after : {1, 2}) {
      const End<float> end = train_on(saved, trainee, {.ranks = after, .groups = 2});
      EXPECT_EQ(end.values, undisturbed.values) << before << " to " << after;
      EXPECT_EQ(end.state, undisturbed.state) << before << " to " << after;
    }
  }
}

}  // namespace
}  // namespace shampoo::test
