// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "distributor/communicator.h"
#include "tests/shampoo/protocol/failing_backend.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

class Ladder : public ::testing::Test {
 protected:
  std::unique_ptr<kernels::Backend> cpu = cpu_kernels();
  FailingBackend backend{*cpu};
  std::unique_ptr<Communicator> ranks = single_rank_communicator();
  ToyModel<float> model{{{8, 8}, {8, 8}, {5, 7}}};
  Recipe recipe = [] {
    Recipe r = quick_recipe();
    r.refresh = {.every = 1, .first = 1};
    std::get<RootInverse>(r.preconditioner).solver = Eigen{};
    return r;
  }();
};

TEST_F(Ladder, TriesAJitteredDiagonalThenFloat64ThenJacobi) {
  Optimizer optimizer(backend, *ranks, {model.group(recipe)});
  using kernels::Eigensolver;
  const auto statistics_when = [&](auto fails) {
    backend.attempts = 0;
    backend.fails = fails;
    optimizer.step();
    return optimizer.statistics();
  };

  const Statistics jittered =
      statistics_when([](const auto&, auto, int attempt) { return attempt == 0; });
  EXPECT_EQ(jittered.jittered, 6);
  const Statistics doubled = statistics_when([](const kernels::SquareMatrixBatch& group, auto,
                                                int) { return group.type == Type::float32; });
  EXPECT_EQ(doubled.in_float64, 6);
  const Statistics rotated = statistics_when(
      [](const auto&, Eigensolver solver, int) { return solver != Eigensolver::jacobi; });
  EXPECT_EQ(rotated.by_jacobi, 6);
  EXPECT_EQ(rotated.refreshes, 18);
  EXPECT_EQ(rotated.kept_roots, 0);
}

TEST_F(Ladder, RepeatsOnlyTheMatricesThatFailed) {
  Optimizer optimizer(backend, *ranks, {model.group(recipe)});
  std::vector<std::int64_t> tried;
  backend.fails = [&](const kernels::SquareMatrixBatch& group, auto, int attempt) {
    if (group.first == 0 || tried.size() <= static_cast<std::size_t>(attempt)) {
      tried.resize(static_cast<std::size_t>(attempt) + 1, 0);
    }
    ++tried[static_cast<std::size_t>(attempt)];
    return attempt == 0 && group.side == 5;
  };

  optimizer.step();

  EXPECT_EQ(tried, (std::vector<std::int64_t>{6, 1}));
  EXPECT_EQ(optimizer.statistics().jittered, 1);
  EXPECT_EQ(optimizer.statistics().refreshes, 6);
}

TEST_F(Ladder, EveryRungGivesTheRoot) {
  // The bound of a float32 root: each rung solves a matrix within a few roundings of the same.
  std::vector<std::vector<std::vector<float>>> results;
  for (const int failing : {0, 1, 2, 3}) {
    ToyModel<float> own({{8, 8}});
    FailingBackend failing_backend(*cpu);
    failing_backend.fails = [=](const auto&, auto, int attempt) { return attempt < failing; };
    Optimizer optimizer(failing_backend, *ranks,
                        {own.group(recipe, {.beta2 = 1, .epsilon = 1e-2})});
    optimizer.step();
    results.push_back(own.values());
  }
  // |d root| / |root| <= |dA| / (4 epsilon) and the first step's factor has a norm of about n.
  const double condition = 64 / 1e-2;
  const double bound = condition * std::numeric_limits<float>::epsilon();
  for (std::size_t r = 1; r < results.size(); ++r)
    for (std::size_t i = 0; i < 64; ++i)
      EXPECT_NEAR(results[r][0][i], results[0][0][i], bound * 1e-3 * 8) << r << ' ' << i;
}

TEST_F(Ladder, KeepsTheOldRootsAndThrowsAfterTheToleratedFailures) {
  std::get<RootInverse>(recipe.preconditioner).tolerated_failures = 2;
  Optimizer optimizer(backend, *ranks, {model.group(recipe)});
  optimizer.step();
  const SlotView root = optimizer.slot("tensor2", 0, "root/0");
  const std::vector<float> before(static_cast<const float*>(root.data),
                                  static_cast<const float*>(root.data) + 5);

  backend.fails = [](const kernels::SquareMatrixBatch& group, auto, auto) {
    return group.side == 5;
  };
  optimizer.step();
  optimizer.step();
  const auto values = model.values();
  try {
    optimizer.step();
    FAIL() << "the third failure in a row must throw";
  } catch (const NumericalError& error) {
    EXPECT_NE(std::string(error.what()).find("tensor2"), std::string::npos) << error.what();
  }

  EXPECT_TRUE(std::equal(before.begin(), before.end(), static_cast<const float*>(root.data)));
  EXPECT_NE(model.values(), values) << "the step itself was taken, with the old roots";
  EXPECT_EQ(optimizer.statistics().kept_roots, 3);
  backend.fails = [](const auto&, auto, auto) { return false; };
  EXPECT_TRUE(optimizer.step().applied());
}

class LadderOnManyRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Tolerated, LadderOnManyRanks, ::testing::Values(0, 1, 3),
                         testing::PrintToStringParamName());

/// One owner fails once more than is tolerated.
TEST_P(LadderOnManyRanks, GivesTheSameResultsAndTheSameErrorOnAll) {
  constexpr int count = 3;
  std::vector<std::vector<std::vector<float>>> values(count);
  std::vector<std::string> messages(count);
  std::vector<std::int64_t> kept(count);
  run_ranks(count, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto cpu = cpu_kernels({.threads = 1});
    FailingBackend backend(*cpu);
    ToyModel<float> model({{8, 8}, {8, 8}, {5, 7}});
    Recipe recipe = quick_recipe();
    recipe.refresh = {.every = 1, .first = 1};
    auto& roots = std::get<RootInverse>(recipe.preconditioner);
    roots.solver = Eigen{};
    roots.tolerated_failures = GetParam();
    Optimizer optimizer(backend, communicator, {model.group(recipe)});
    optimizer.step();
    backend.fails = [](const kernels::SquareMatrixBatch& group, auto, auto) {
      return group.side == 5;
    };
    for (int failure = 0; failure < GetParam(); ++failure)
      EXPECT_TRUE(optimizer.step().applied()) << "failure " << failure << " on rank " << rank;
    try {
      optimizer.step();
      ADD_FAILURE() << "one failure more in a row must throw on rank " << rank;
    } catch (const NumericalError& error) {
      messages[rank] = error.what();
    }
    backend.fails = [](const auto&, auto, auto) { return false; };
    EXPECT_TRUE(optimizer.step().applied());
    values[rank] = model.values();
    kept[rank] = optimizer.statistics().kept_roots;
  });

  for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
  EXPECT_NE(messages[0].find("tensor2"), std::string::npos) << messages[0];
  EXPECT_NE(messages[0].find("rank "), std::string::npos) << messages[0];
  for (const auto& of_rank : values) EXPECT_EQ(of_rank, values[0]);
  EXPECT_EQ(kept[0] + kept[1] + kept[2], GetParam() + 1) << "only the owner fails";
}

TEST_F(Ladder, ASuccessInBetweenStartsTheCountAgain) {
  std::get<RootInverse>(recipe.preconditioner).tolerated_failures = 1;
  Optimizer optimizer(backend, *ranks, {model.group(recipe)});
  for (int step = 0; step < 6; ++step) {
    const bool failing = step % 2 == 0;
    backend.fails = [=](const auto&, auto, auto) { return failing; };
    EXPECT_NO_THROW(optimizer.step());
  }
  EXPECT_EQ(optimizer.statistics().kept_roots, 18);
}

TEST_F(Ladder, RootsThatNeverSucceededAreTheIdentity) {
  backend.fails = [](const auto&, auto, auto) { return true; };
  recipe.grafting = std::nullopt;
  ToyModel<float> plain_model({{8, 8}, {8, 8}, {5, 7}});
  Recipe never = recipe;
  never.refresh.first = std::nullopt;
  Optimizer failing(backend, *ranks, {model.group(recipe)});
  Optimizer plain(*cpu, *ranks, {plain_model.group(never)});

  failing.step();
  plain.step();

  EXPECT_EQ(model.values(), plain_model.values());
}

}  // namespace
}  // namespace shampoo::test
