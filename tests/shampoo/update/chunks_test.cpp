// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "shampoo/update/block_chunks.h"
#include "tests/shampoo/preconditioners/all_kinds.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/shampoo/update/ranks_run.h"

namespace shampoo::test {
namespace {

/// Which stores all directions on the host, too.
constexpr UpdateClipping clipping{.limit = 1};

/// Shampoo with momentum, SOAP of vectors too, KL-Shampoo in eigenbases.
std::vector<Recipe> matrix_recipes() {
  Recipe shampoo = quick_recipe();
  shampoo.averaging = Momentum{};
  shampoo.update_scaling = clipping;
  Recipe soap = recipes::soap_reference();
  Recipe kl = quick_recipe();
  kl.preconditioner = KullbackLeibler{.form = Eigendecomposed{}};
  for (Recipe* const recipe : {&soap, &kl}) {
    recipe->blocking.size = 8;
    recipe->refresh = {.every = 3, .first = 2};
  }
  return {shampoo, soap, kl};
}

class ChunksOfDirections : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }

  void expect_the_bits_of_all_at_once(Setting setting) {
    setting.place = GetParam();
    setting.direction_bytes = std::int64_t{1} << 30;
    const auto whole = train<float>(1, setting).values[0];
    for (const bool merges : {true, false})
      for (const int ranks : {1, 3})
        // One block at a time, and a few.
        for (const std::int64_t bytes : {0, 700}) {
          setting.merges = merges;
          setting.direction_bytes = bytes;
          for (const auto& values : train<float>(ranks, setting).values)
            EXPECT_EQ(values, whole) << merges << ", " << ranks << " ranks, " << bytes << " bytes";
        }
  }
};

TEST_P(ChunksOfDirections, GiveTheBitsOfAllAtOnce) {
  expect_the_bits_of_all_at_once(
      {.shapes = GetParam() == Place::cpu
                     ? awkward_shapes()
                     : std::vector<std::vector<std::int64_t>>{{}, {9, 8}, {20, 3}, {2, 3, 2}},
       .recipes = matrix_recipes(),
       .groups = 4,
       .steps = GetParam() == Place::cpu ? 7 : 4,
       .absent_every = 4});
}

TEST_P(ChunksOfDirections, GiveTheBitsOfAllAtOnceWithMuon) {
  Recipe muon = recipes::muon();
  muon.update_scaling = clipping;
  expect_the_bits_of_all_at_once(
      {.shapes = {{9, 8}, {8, 9}, {20, 3}, {9, 8}}, .recipes = {muon}, .groups = 2, .steps = 3});
}

/// Of two matrices of Muon, one of which has no gradient.
TEST_P(ChunksOfDirections, DoNotReadWhatSolversLeaveInTheirMemory) {
  Recipe roots = quick_recipe();
  roots.refresh = {.every = 1, .first = 1};
  roots.blocking.size = 64;
  for (const Orthogonalizer& solver : {Orthogonalizer(NewtonSchulz{}), Orthogonalizer(Svd{})}) {
    Recipe muon = recipes::muon();
    muon.preconditioner = Spectral{.solver = solver};
    muon.update_scaling = clipping;
    const auto trained = [&](bool beside_roots) {
      std::vector<std::vector<float>> values;
      run_ranks_at(GetParam(), 1, [&](Communicator& communicator, kernels::Backend& backend) {
        ToyModel<float> model({{9, 8}, {9, 8}}, 1, &backend), other({{60, 50}}, 2, &backend);
        std::vector<ParameterGroup> groups = {model.group(muon)};
        if (beside_roots) {
          groups.insert(groups.begin(), other.group(roots));
          groups.front().parameters.front().name = "other";
        }
        Optimizer optimizer(backend, communicator, groups);
        optimizer.step();
        optimizer.group(beside_roots ? 1 : 0).set_gradient(1, nullptr);
        for (int step = 0; step < 2; ++step) optimizer.step();
        values = model.values();
      });
      return values;
    };
    EXPECT_EQ(trained(true), trained(false));
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ChunksOfDirections, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

/// Both groups of values, evaluation values and state after some steps, of rank 0.
struct Outcome {
  StateDict state;
  Job<float>::Values trained, evaluated;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const Trainee& trainee, Place place, int ranks,
                   const OptimizerOptions& options) {
  Outcome outcome;
  run_ranks_at(place, ranks, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, trainee, {.groups = 2}, options, &backend);
    job.train(0, place == Place::cpu ? 7 : 4);
    StateDict state = job.optimizer->full_state_dict({.derived = true}, Gather::on_rank_0);
    Job<float>::Values trained = job.values();
    const Evaluation guard = job.optimizer->evaluate();
    if (communicator.rank() == 0) outcome = {std::move(state), std::move(trained), job.values()};
  });
  return outcome;
}

constexpr std::int64_t all_at_once = std::int64_t{1} << 40;

TEST_P(ChunksOfDirections, GiveTheBitsOfAllAtOnceWithAnAverageOfValuesAndClippedGradients) {
  Recipe recipe = quick_recipe();
  recipe.averaging = Momentum{};
  recipe.update_scaling = clipping;
  recipe.value_averaging = ExponentialAverage{.every = 2};
  const Trainee trainee{.recipes = {recipe}, .narrow = true, .absent_every = 4};
  const GradientOptions gradients{.clipping = ClipParameterNorm{0.1}};
  const Outcome whole =
      outcome_of(trainee, GetParam(), 1, {.gradients = gradients, .direction_bytes = all_at_once});
  EXPECT_NE(whole.evaluated, whole.trained);
  EXPECT_NE(whole.trained,
            outcome_of(trainee, GetParam(), 1, {.direction_bytes = all_at_once}).trained);
  for (const auto& [ranks, bytes] : {std::pair{1, 0}, std::pair{1, 700}, std::pair{3, 0}})
    EXPECT_EQ(
        outcome_of(trainee, GetParam(), ranks, {.gradients = gradients, .direction_bytes = bytes}),
        whole)
        << ranks << " ranks, " << bytes << " bytes";
}

/// Values in float32 and bfloat16, absent gradients, an iterate, more ranks than some shapes have
/// blocks; with and without grafting.
class ChunksOfAKind : public ::testing::TestWithParam<Preconditioner> {
 protected:
  static Trainee trainee(Place place, bool grafts) {
    Recipe recipe = quick_recipe();
    recipe.preconditioner = GetParam();
    recipe.grafting = std::nullopt;
    if (grafts && std::holds_alternative<Adam>(GetParam()))
      recipe.grafting = RmsProp{.centered = true};
    else if (grafts)
      recipe.grafting = Adam{.amsgrad = true};
    recipe.averaging = ScheduleFree{};
    recipe.update_scaling = clipping;
    Trainee trainee{.recipes = {recipe}, .narrow = true, .absent_every = 4};
    if (takes_matrices_only(GetParam()))
      trainee.shapes = {{9, 8}, {20, 3}, {17, 1, 16}, {9, 8}};
    else if (place != Place::cpu)
      trainee.shapes = {{}, {9, 8}, {20, 3}, {2, 3, 2}, {9, 8}};
    return trainee;
  }
};

TEST_P(ChunksOfAKind, GiveTheBitsOfAllAtOnce) {
  for (const Place place : {Place::cpu, Place::emulated})
    for (const bool grafts : {true, false}) {
      const Trainee trainee = this->trainee(place, grafts);
      const Outcome whole = outcome_of(trainee, place, 1, {.direction_bytes = all_at_once});
      EXPECT_NE(whole.evaluated, whole.trained);
      // One block at a time, and a few.
      for (const auto& [ranks, bytes] : {std::pair{1, 0}, std::pair{1, 700}, std::pair{3, 0}})
        EXPECT_EQ(outcome_of(trainee, place, ranks, {.direction_bytes = bytes}), whole)
            << name_of(place) << ", " << ranks << " ranks, " << bytes << " bytes, " << grafts;
    }
}

/// Of matrices in one panel, in two, and taken whole; with and without a first moment.
TEST(OnePassOfMuon, GivesTheBitsOfStoredDirections) {
  Recipe muon = recipes::muon();
  muon.averaging = Momentum{};
  muon.value_averaging = ExponentialAverage{.every = 2};
  muon.projection = Bounds{.lower = -0.5, .upper = 0.5};
  muon.communication.values = true;
  Recipe unfiltered = muon;
  unfiltered.filter = false;
  const Trainee trainee{
      .shapes = {{9, 8}, {600, 40}, {3, 700}, {33, 65}, {40, 2, 6, 50}, {513, 7}, {8, 9}},
      .recipes = {muon, unfiltered},
      .narrow = true,
      .absent_every = 4};
  const Outcome stored =
      outcome_of(trainee, Place::cpu, 1, {.transform_direction = [](const DirectionBlock&) {}});
  EXPECT_NE(stored.evaluated, stored.trained);
  for (const int ranks : {1, 3}) EXPECT_EQ(outcome_of(trainee, Place::cpu, ranks, {}), stored);
}

INSTANTIATE_TEST_SUITE_P(Of, ChunksOfAKind, testing::ValuesIn(all_kinds()), name_of_kind);

TEST(ChunksOfDirections, KeepTheirStateWhereAnAddedGroupCutsThemElsewhere) {
  std::vector<std::vector<std::vector<float>>> runs;
  for (const std::int64_t bytes : {1 << 20, 0, 700}) {
    ToyModel<float> model(awkward_shapes());
    const auto backend = cpu_backend({.threads = 2});
    const auto ranks = single_rank_communicator();
    Recipe recipe = quick_recipe();
    recipe.update_scaling = clipping;
    auto groups = model.groups(recipe, {});
    const ParameterGroup later = groups.back();
    groups.pop_back();
    Optimizer optimizer(*backend, *ranks, groups, {.direction_bytes = bytes});
    for (int step = 0; step < 4; ++step) optimizer.step();
    optimizer.add_group(later);
    const StateDict saved = optimizer.full_state_dict();
    for (int step = 0; step < 3; ++step) optimizer.step();
    optimizer.load_state_dict(saved);
    for (int step = 0; step < 3; ++step) optimizer.step();
    runs.push_back(model.values());
  }
  EXPECT_EQ(runs[1], runs[0]);
  EXPECT_EQ(runs[2], runs[0]);
}

TEST(CutIntoChunks, MakesThemAsLongAsTheLimitAllowsAndCutsStacksWithThem) {
  // Two stacks: three blocks of 40 elements, four of 12.
  std::vector<OwnedBlock> planned;
  for (int i = 0; i < 3; ++i) planned.push_back({.stack = 0, .in_stack = i, .flat = 40 * i});
  for (int i = 0; i < 4; ++i) planned.push_back({.stack = 1, .in_stack = i, .flat = 120 + 12 * i});
  const auto chunks_of = [&](std::int64_t most) {
    std::vector<OwnedBlock> blocks = planned;
    return cut_into_chunks(blocks, 168, most);
  };
  EXPECT_EQ(chunks_of(168).size(), 1U);
  EXPECT_EQ(chunks_of(167).size(), 2U);
  EXPECT_EQ(chunks_of(0).size(), planned.size()) << "one block at a time";

  std::vector<OwnedBlock> blocks = planned;
  std::vector<std::array<std::size_t, 4>> ranges;
  std::vector<std::array<std::int64_t, 2>> elements;
  for (const Chunk& chunk : cut_into_chunks(blocks, 168, 52)) {
    ranges.push_back({chunk.first_block, chunk.end_block, chunk.first_stack, chunk.end_stack});
    elements.push_back({chunk.first_element, chunk.end_element});
  }
  const decltype(ranges) expected = {{0, 1, 0, 1}, {1, 2, 1, 2}, {2, 4, 2, 4}, {4, 7, 4, 5}};
  EXPECT_EQ(ranges, expected);
  const decltype(elements) expected_elements = {{0, 40}, {40, 80}, {80, 132}, {132, 168}};
  EXPECT_EQ(elements, expected_elements);
  std::vector<std::array<std::int64_t, 3>> places;
  for (const OwnedBlock& block : blocks)
    places.push_back({block.stack, block.in_stack, block.flat});
  const decltype(places) expected_places = {{0, 0, 0},   {1, 0, 40},  {2, 0, 80}, {3, 0, 120},
                                            {4, 0, 132}, {4, 1, 144}, {4, 2, 156}};
  EXPECT_EQ(places, expected_places);
}

TEST(CutIntoChunks, MakesOneOfNoBlocks) {
  std::vector<OwnedBlock> none;
  const std::vector<Chunk> chunks = cut_into_chunks(none, 0, 7);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].elements(), 0);
  EXPECT_EQ(chunks[0].end_stack, 0U);
}

}  // namespace
}  // namespace shampoo::test
