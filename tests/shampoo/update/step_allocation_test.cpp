// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "distributor/communicator.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/allocations.h"

namespace shampoo::test {
namespace {

Recipe recipe_with(const Preconditioner& preconditioner) {
  Recipe recipe = quick_recipe();
  recipe.preconditioner = preconditioner;
  recipe.averaging = Momentum{};
  return recipe;
}

class StepAllocations : public ::testing::TestWithParam<std::string> {
 protected:
  static Preconditioner preconditioner() {
    if (GetParam() == "Newton") return RootInverse{.solver = CoupledNewton{}};
    if (GetParam() == "HigherOrder")
      return RootInverse{.solver = CoupledHigherOrder{.absolute_epsilon = 1e-3}};
    if (GetParam() == "Minimax") return RootInverse{.solver = Minimax{}};
    if (GetParam() == "Soap") return EigenvalueCorrected{.solver = Eigh{.tolerance = 0.1}};
    if (GetParam() == "SoapByQr")
      return EigenvalueCorrected{.solver = Qr{.max_iterations = 2, .tolerance = 0.01}};
    if (GetParam() == "SoapByTwoIterations")
      return EigenvalueCorrected{.solver = Qr{.max_iterations = 2}};
    if (GetParam() == "Kl") return KullbackLeibler{};
    if (GetParam() == "EigendecomposedKl") return KullbackLeibler{.form = Eigendecomposed{}};
    return RootInverse{};
  }
};

TEST_P(StepAllocations, NoneAfterTheFirstStep) {
  // LAPACK's decompositions, which iterations fall back to, may allocate within OpenBLAS.
  const bool decomposes = GetParam() != "Minimax";
  if (decomposes && !AllocationCounter::sees_everything())
    GTEST_SKIP() << "a sanitizer does not tell who allocates";
  std::vector<std::vector<std::int64_t>> shapes = awkward_shapes();
  shapes.push_back({150, 90});
  ToyModel<float> model(shapes);
  Recipe recipe = recipe_with(preconditioner());
  recipe.blocking.size = 100;
  recipe.value_averaging = ExponentialAverage{.every = 2};
  // Directions of Automatic are not stored.
  if (GetParam() != "Automatic") recipe.update_scaling = TrustRatio{};
  recipe.projection = Bounds{-10, 10};
  recipe.communication.values = true;
  const auto backend = cpu_backend({.threads = 3});
  const auto ranks = single_rank_communicator();
  ParameterGroup group = model.group(recipe, {.momentum = 0.5});
  group.schedules["momentum"] = schedules::Cosine{.steps = 20};
  // Chunks of a few blocks, and of one.
  Optimizer optimizer(*backend, *ranks, {group}, {.direction_bytes = 20'000});
  optimizer.group(0).set_rate(3, &Rates::learning_rate, 1e-2);
  int calls = 0;
  const auto hooks = optimizer.on_step({.after = [&](Optimizer&, StepResult&) { ++calls; }});
  std::vector<float> elsewhere(model.tensors.back().gradient);
  optimizer.step();

  std::vector<std::int64_t> requests;
  for (int step = 0; step < 12; ++step) {
    // Rates that change, gradients that come and go or move, a gradient that is not finite.
    optimizer.group(0).rates.learning_rate *= 0.9;
    optimizer.group(0).rates.beta2 = 0.9 + 0.001 * step;
    optimizer.group(0).set_gradient(4, step % 2 == 0 ? nullptr : model.tensors[4].gradient.data());
    optimizer.group(0).set_gradient(
        shapes.size() - 1, step % 3 == 0 ? elsewhere.data() : model.tensors.back().gradient.data());
    model.tensors[5].gradient[0] = step == 7 ? std::numeric_limits<float>::infinity() : 1.0F;
    const AllocationCounter counter;
    optimizer.step();
    const Allocations count = counter.count();
    requests.push_back(decomposes ? count.outside_blas() : count.total());
  }

  EXPECT_EQ(requests, std::vector<std::int64_t>(12, 0));
  EXPECT_EQ(calls, 13);
  EXPECT_EQ(optimizer.statistics().skipped_steps, 1);
  EXPECT_GT(optimizer.statistics().refreshes, 0);
}

TEST(StepAllocationsOfMuon, NoneAfterTheFirstStep) {
  for (const Orthogonalizer& solver :
       {Orthogonalizer(NewtonSchulz{}), Orthogonalizer(PolarExpress{}), Orthogonalizer(Svd{})}) {
    // LAPACK's decompositions may allocate within OpenBLAS.
    const bool decomposes = std::holds_alternative<Svd>(solver);
    if (decomposes && !AllocationCounter::sees_everything())
      GTEST_SKIP() << "a sanitizer does not tell who allocates";
    ToyModel<float> model({{9, 8}, {48, 3}, {150, 90}, {120, 130}, {3, 4, 5}});
    Recipe recipe = recipes::muon();
    recipe.preconditioner = Spectral{.solver = solver};
    const auto backend = cpu_backend({.threads = 3});
    const auto ranks = single_rank_communicator();
    Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
    optimizer.step();
    for (int step = 0; step < 4; ++step) {
      optimizer.group(0).set_gradient(2,
                                      step % 2 == 0 ? nullptr : model.tensors[2].gradient.data());
      const AllocationCounter counter;
      optimizer.step();
      const Allocations count = counter.count();
      EXPECT_EQ(decomposes ? count.outside_blas() : count.total(), 0);
    }
  }
}

TEST(StepAllocationsOnManyRanks, NoneAfterTheFirstStep) {
  if (!AllocationCounter::sees_everything())
    GTEST_SKIP() << "a sanitizer does not tell who allocates";
  for (const bool votes : {false, true}) {
    std::vector<std::int64_t> requests;
    run_ranks(3, [&](Communicator& ranks) {
      ToyModel<float> model(awkward_shapes());
      const auto backend = cpu_backend({.threads = 1});
      Recipe recipe = recipe_with(RootInverse{});
      recipe.averaging = ScheduleFree{};
      Optimizer optimizer(*backend, ranks, model.groups(recipe, {}),
                          {.agree_before_commit = votes});
      optimizer.step();
      // The counter sees the whole process: nobody may still be in the first step, or leave.
      for (int step = 0; step < 6; ++step) {
        ranks.barrier().wait();
        std::optional<AllocationCounter> counter;
        if (ranks.rank() == 0) counter.emplace();
        ranks.barrier().wait();
        optimizer.step();
        ranks.barrier().wait();
        if (counter) requests.push_back(counter->count().outside_blas());
        ranks.barrier().wait();
      }
    });
    EXPECT_EQ(requests, std::vector<std::int64_t>(6, 0)) << votes;
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, StepAllocations,
                         ::testing::Values("Automatic", "Newton", "HigherOrder", "Minimax", "Soap",
                                           "SoapByQr", "SoapByTwoIterations", "Kl",
                                           "EigendecomposedKl"),
                         [](const auto& solver) { return solver.param; });

}  // namespace
}  // namespace shampoo::test
