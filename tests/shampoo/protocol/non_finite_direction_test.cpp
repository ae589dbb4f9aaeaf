// SPDX-License-Identifier: Apache-2.0
// A block whose direction is not finite keeps its values; no step writes one that is not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/numbers.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/device/ranks_at.h"

namespace shampoo::test {
namespace {

const std::vector<std::vector<std::int64_t>> three_shapes = {{9, 8}, {13}, {8, 7}};

struct BrokenSlot {
  std::string name;
  Preconditioner preconditioner;
  std::string slot;  ///< one that directions are computed with, and that only a refresh writes
  std::optional<Diagonal> grafting;
  bool sends_values = false;
  bool mended = true;  ///< by the next refresh, as no statistic reads the slot
};

/// Refreshed by steps 2, 3 and 6.
Recipe recipe_of(const BrokenSlot& tested) {
  Recipe recipe = quick_recipe();
  recipe.preconditioner = tested.preconditioner;
  recipe.grafting = tested.grafting;
  recipe.averaging = Momentum{};
  recipe.communication.values = tested.sends_values;
  return recipe;
}

struct KeptBlock {
  std::vector<std::vector<float>> before, after, later;
  std::string name;
  std::vector<std::byte> momentum_before, momentum_after;
  Statistics statistics;
};

/// Steps 1 to 3; then, if `breaks`, a NaN in the derived state of "tensor2"; step 4; steps 5 and 6,
/// whose refresh mends it.
KeptBlock train(Communicator& ranks, kernels::Backend& backend, const BrokenSlot& tested,
                bool breaks) {
  ToyModel<float> model(three_shapes, 1, &backend);
  Optimizer optimizer(backend, ranks,
                      {model.group(recipe_of(tested), {.weight_decay = 0.1, .momentum = 0.9})});
  const auto step = [&] {
    model.new_gradients();
    return optimizer.step();
  };
  const auto momentum = [&] {
    const StateDict all = optimizer.full_state_dict();
    const StateTensor* const found = all.find("tensor2/momentum");
    return found ? found->bytes : std::vector<std::byte>();
  };
  for (int k = 0; k < 3; ++k) step();
  StateDict dict = optimizer.full_state_dict();
  for (StateTensor& tensor : dict.tensors)
    if (breaks && tensor.name() == "tensor2/" + tested.slot + "/0.0") {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(tensor.bytes.data(), &nan, sizeof(nan));
    }
  optimizer.load_state_dict(dict);

  KeptBlock outcome;
  outcome.before = model.values();
  outcome.momentum_before = momentum();
  const StepResult result = step();
  EXPECT_TRUE(result.applied());
  outcome.name = result.non_finite_direction();
  outcome.after = model.values();
  outcome.momentum_after = momentum();
  outcome.statistics = optimizer.statistics();
  for (int k = 0; k < 2; ++k) step();
  EXPECT_EQ(optimizer.latest_result().non_finite_direction(),
            breaks && !tested.mended ? "tensor2" : "");
  outcome.later = model.values();
  return outcome;
}

std::vector<KeptBlock> train_on(Place place, int count, const BrokenSlot& tested, bool breaks) {
  std::vector<KeptBlock> outcomes(static_cast<std::size_t>(count));
  run_ranks_at(place, count, [&](Communicator& ranks, kernels::Backend& backend) {
    outcomes[static_cast<std::size_t>(ranks.rank())] = train(ranks, backend, tested, breaks);
  });
  return outcomes;
}

class NonFiniteDirection : public testing::TestWithParam<std::tuple<BrokenSlot, Place>> {
 protected:
  void SetUp() override { require(std::get<Place>(GetParam())); }
};

TEST_P(NonFiniteDirection, KeepsTheBlockUntilTheNextRefreshAndIsNamedAndCounted) {
  const auto& [tested, place] = GetParam();
  const KeptBlock undisturbed = train_on(place, 1, tested, false).front();
  EXPECT_EQ(undisturbed.name, "");

  for (const int count : place == Place::cuda ? std::vector{1} : std::vector{1, 3}) {
    std::int64_t counted = 0;
    for (const KeptBlock& outcome : train_on(place, count, tested, true)) {
      EXPECT_EQ(outcome.before, undisturbed.before);
      EXPECT_EQ(outcome.name, "tensor2") << count;
      EXPECT_EQ(outcome.after[2], outcome.before[2]);
      EXPECT_NE(undisturbed.after[2], outcome.before[2]);
      EXPECT_FALSE(outcome.momentum_before.empty());
      EXPECT_EQ(outcome.momentum_after, outcome.momentum_before);
      EXPECT_EQ(outcome.after[0], undisturbed.after[0]);
      EXPECT_EQ(outcome.after[1], undisturbed.after[1]);
      EXPECT_EQ(outcome.later[2] != outcome.after[2], tested.mended);
      for (const float x : outcome.later[2]) EXPECT_TRUE(std::isfinite(x));
      counted += outcome.statistics.non_finite_directions;
    }
    EXPECT_EQ(counted, 1);
  }
}

const BrokenSlot broken_slots[] = {
    {"RootInverse", RootInverse{}, "root/0", Adam{}},
    {"RootInverseWithoutGrafting", RootInverse{}, "root/1", std::nullopt},
    {"SentValues", RootInverse{}, "root/0", Adam{}, true},
    {"Eigendecomposed", Eigendecomposed{}, "basis/0", Adam{}},
    {"EigenvalueCorrected", EigenvalueCorrected{}, "basis/1", std::nullopt, false, false},
    {"KullbackLeibler", KullbackLeibler{}, "root/0", Adam{}},
};

INSTANTIATE_TEST_SUITE_P(Kinds, NonFiniteDirection,
                         testing::Combine(testing::ValuesIn(broken_slots),
                                          testing::ValuesIn(all_places)),
                         [](const auto& tested) {
                           return std::get<BrokenSlot>(tested.param).name + "_" +
                                  name_of(std::get<Place>(tested.param));
                         });

class NoStep : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }
};

/// The numbers of `type` in the memory of `backend`.
struct PlacedValues {
  PlacedValues(kernels::Backend& backend, Type of, std::size_t count, double value = 0)
      : bytes(count * size_of(of)), placed(&backend, bytes), type(of) {
    for (std::size_t at = 0; at < bytes.size(); at += size_of(type))
      write(bytes.data() + at, type, value);
    placed.send();
  }

  bool all_finite() const {
    const std::vector<std::byte> now = placed.fetch();
    for (std::size_t at = 0; at < now.size(); at += size_of(type))
      if (!std::isfinite(read(now.data() + at, type))) return false;
    return true;
  }

  std::vector<std::byte> bytes;
  Placed<std::byte> placed;
  Type type;
};

TEST_P(NoStep, WritesValuesThatAreNotFinite) {
  for (const Type type : {Type::float64, Type::float32, Type::bfloat16, Type::float16})
    for (const int count : GetParam() == Place::cuda ? std::vector{1} : std::vector{1, 2})
      for (const bool momentum : {false, true})
        run_ranks_at(GetParam(), count, [&](Communicator& ranks, kernels::Backend& backend) {
          ToyModel<float> gradients({{9, 8}}, 1, &backend);
          PlacedValues values(backend, type, 72);
          Recipe recipe = quick_recipe();
          recipe.preconditioner = Sgd{};
          recipe.grafting.reset();
          if (momentum) recipe.averaging = Momentum{};
          if (type == Type::float64) recipe.arithmetic = Arithmetic::float64;
          const double rate = type == Type::float64 ? 1e308 : type == Type::float16 ? 6e4 : 3e38;
          Rates rates = read_rates(recipe, {.learning_rate = rate});
          Parameter parameter = gradients.parameter(0);
          parameter.value = Tensor(values.placed.data(), type);
          Optimizer optimizer(backend, ranks, {{{parameter}, rates, recipe}});
          for (int step = 0; step < 5; ++step) {
            EXPECT_TRUE(optimizer.step().applied());
            EXPECT_TRUE(values.all_finite()) << name_of(type) << ' ' << step;
          }
        });
}

/// Steps by slightly less than half a last place of the type's largest number, which float32 rounds
/// to half of one, and 16 bits to infinity.
TEST_P(NoStep, RoundsTheLargestValueToInfinityInAnyWireType) {
  using enum Type;
  for (const Type type : {bfloat16, float16}) {
    const double largest = type == float16 ? 65504 : 0x1.fep127,
                 half = type == float16 ? 16 : 0x1p119;
    for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::float64})
      for (const std::optional<Type> wire_type :
           {std::optional<Type>(), std::optional(float32), std::optional(bfloat16)})
        run_ranks_at(GetParam(), 1, [&](Communicator& ranks, kernels::Backend& backend) {
          ToyModel<float> gradients({{13}}, 1, &backend);
          gradients.tensors[0].gradient.assign(13, -1);
          gradients.send_gradients();
          PlacedValues values(backend, type, 13, largest);
          Recipe recipe = recipes::sgd();
          recipe.arithmetic = arithmetic;
          recipe.communication.type = wire_type;
          Parameter parameter = gradients.parameter(0);
          parameter.value = Tensor(values.placed.data(), type);
          Optimizer optimizer(backend, ranks,
                              {{{parameter}, {.learning_rate = half * (1 - 0x1p-30)}, recipe}});
          EXPECT_TRUE(optimizer.step().applied());
          EXPECT_TRUE(values.all_finite()) << name_of(type);
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, NoStep, testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
