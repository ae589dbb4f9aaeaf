// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/shampoo/toy_model.h"

namespace shampoo::test {
namespace {

class Engine : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend = cpu_backend();
  std::unique_ptr<Communicator> ranks = single_rank_communicator();
};

TEST_F(Engine, LowersTheLossOfALeastSquaresProblem) {
  // loss = |W - T|^2 / 2, gradient W - T
  ToyModel<float> model({{24, 16}, {16}});
  const ToyModel<float> target({{24, 16}, {16}}, 2);
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe(), {.learning_rate = 0.05})});
  const auto loss_and_gradient = [&] {
    double loss = 0;
    for (std::size_t t = 0; t < model.tensors.size(); ++t)
      for (std::size_t i = 0; i < model.tensors[t].value.size(); ++i) {
        const float d = model.tensors[t].value[i] - target.tensors[t].value[i];
        model.tensors[t].gradient[i] = d;
        loss += 0.5 * d * d;
      }
    return loss;
  };

  const double before = loss_and_gradient();
  for (int step = 0; step < 100; ++step) {
    optimizer.step();
    loss_and_gradient();
  }

  EXPECT_LT(loss_and_gradient(), 0.01 * before);
  EXPECT_EQ(optimizer.statistics().applied_steps, 100);
}

TEST_F(Engine, LeavesAParameterWithoutGradientAlone) {
  ToyModel<float> model({{9, 8}, {13}});
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe(), {.weight_decay = 0.1})});
  const auto before = model.values();

  optimizer.group(0).set_gradient(0, nullptr);
  for (int step = 0; step < 4; ++step) optimizer.step();

  EXPECT_EQ(model.tensors[0].value, before[0]);
  EXPECT_NE(model.tensors[1].value, before[1]);
  EXPECT_EQ(optimizer.steps("tensor0"), 0);
  EXPECT_EQ(optimizer.steps("tensor1"), 4);
}

TEST_F(Engine, DecaysByTheFormulaOfEachKindWhereTheGradientIsZero) {
  constexpr double rate = 0.25, peak = 0.5, decay = 0.125;
  const auto decayed = [&](WeightDecay kind, double learning_rate) {
    ToyModel<float> model({{9, 8}, {13}});
    for (auto& tensor : model.tensors) {
      std::ranges::fill(tensor.gradient, 0.0f);
      std::ranges::fill(tensor.value, 1.0f);
    }
    Recipe recipe = quick_recipe();
    recipe.weight_decay = kind;
    Rates rates{.learning_rate = learning_rate, .weight_decay = decay};
    if (kind == WeightDecay::corrected || kind == WeightDecay::independent)
      rates.peak_learning_rate = peak;
    Optimizer optimizer(*backend, *ranks, {model.group(recipe, rates)});
    optimizer.step();
    EXPECT_EQ(model.tensors[0].value.front(), model.tensors[1].value.back());
    return 1 - model.tensors[0].value.front();
  };
  EXPECT_EQ(decayed(WeightDecay::decoupled, rate), rate * decay);
  EXPECT_EQ(decayed(WeightDecay::corrected, rate), rate * rate / peak * decay);
  EXPECT_EQ(decayed(WeightDecay::independent, rate), rate / peak * decay);
  EXPECT_EQ(decayed(WeightDecay::plain, rate), decay);
  EXPECT_EQ(decayed(WeightDecay::plain, 0), 0);
}

TEST_F(Engine, DecaysByThePeakOfTheConstructionAfterRatesWithoutOne) {
  ToyModel<float> model({{4, 3}});
  model.tensors[0].gradient.assign(12, 0);
  model.tensors[0].value.assign(12, 1);
  Recipe recipe = quick_recipe();
  recipe.weight_decay = WeightDecay::independent;
  Optimizer optimizer(*backend, *ranks,
                      {model.group(recipe, {.learning_rate = 0.5, .weight_decay = 0.5})});
  for (const double rate : {0.25, 0.0}) {
    optimizer.group(0).rates = {.learning_rate = rate, .weight_decay = 0.5};
    optimizer.step();
    EXPECT_EQ(model.tensors[0].value.front(), 0.75F);
  }
  EXPECT_EQ(optimizer.group(0).rates_of(0).peak_learning_rate, 0.5);
}

TEST_F(Engine, DecaysPlainlyByTheSameWhileTheStepsOfAdaGradShrink) {
  ToyModel<float> model({{4, 3}});
  model.tensors[0].gradient.assign(12, 0);
  model.tensors[0].value.assign(12, 1);
  Recipe recipe = recipes::torch::adagrad();
  recipe.weight_decay = WeightDecay::plain;
  const Rates rates{.learning_rate = 0.25, .weight_decay = 0.5, .learning_rate_decay = 1};
  Optimizer optimizer(*backend, *ranks, {model.group(recipe, rates)});
  for (const float expected : {0.5f, 0.25f, 0.125f}) {
    optimizer.step();
    EXPECT_FLOAT_EQ(model.tensors[0].value.back(), expected);
  }
}

TEST_F(Engine, LeavesAVirtualGroupWithoutGradientsAloneBesideOthers) {
  ToyModel<float> model({{9, 8}, {13}, {5, 4}, {7}});
  std::vector<ParameterGroup> groups(2);
  groups[0] = {.rates = {.weight_decay = 0.1}, .recipe = quick_recipe()};
  groups[1] = {.rates = {.weight_decay = 0.1}, .recipe = recipes::adamw()};
  for (std::size_t t = 0; t < 4; ++t) groups[t / 2].parameters.push_back(model.parameter(t));
  Optimizer optimizer(*backend, *ranks, groups);
  const auto untrained = model.values();
  const StateDict before = optimizer.state_dict();

  for (std::size_t j = 0; j < 2; ++j) optimizer.group(0).set_gradient(j, nullptr);
  for (int step = 0; step < 6; ++step) EXPECT_TRUE(optimizer.step().applied());

  const auto values = model.values();
  const StateDict after = optimizer.state_dict();
  for (std::size_t t = 0; t < 4; ++t) {
    EXPECT_EQ(values[t] == untrained[t], t < 2) << t;
    EXPECT_EQ(optimizer.steps(model.tensors[t].name), t < 2 ? 0 : 6);
  }
  for (const StateTensor& tensor : before.tensors)
    EXPECT_EQ(*after.find(tensor.name()) == tensor,
              tensor.parameter == "tensor0" || tensor.parameter == "tensor1")
        << tensor.name();
}

TEST_F(Engine, GoesOnAfterItWasMoved) {
  ToyModel<float> model({{9, 8}, {13}}), other({{9, 8}, {13}}), third({{6, 5}});
  Optimizer stays(*backend, *ranks, {other.group(quick_recipe())});
  Optimizer first(*backend, *ranks, {model.group(quick_recipe())});
  Optimizer target(*backend, *ranks, {third.group(quick_recipe())});
  const Group& group = first.group(0);
  for (int step = 0; step < 4; ++step) {
    stays.step();
    first.step();
  }
  first.prepare_step();

  Optimizer moved(std::move(first));
  target = std::move(moved);

  EXPECT_EQ(&target.group(0), &group);
  EXPECT_TRUE(target.enqueue_step().applied());
  stays.step();
  target.group(0).rates.learning_rate = stays.group(0).rates.learning_rate = 0.5;
  for (int step = 0; step < 4; ++step) {
    stays.step();
    target.step();
  }
  EXPECT_EQ(model.values(), other.values());
  EXPECT_EQ(target.state_dict(), stays.state_dict());
}

TEST_F(Engine, ContinuesAParameterAsIfTheStepsWithoutGradientHadNotBeen) {
  // tensor0 sits out two steps of one run, in which it has the gradients of the other.
  ToyModel<float> model({{9, 8}, {13}}), other({{9, 8}, {13}});
  Optimizer skipping(*backend, *ranks, {model.group(quick_recipe())});
  Optimizer straight(*backend, *ranks, {other.group(quick_recipe())});

  for (int step = 0; step < 7; ++step) {
    const bool absent = step == 2 || step == 3;
    skipping.group(0).set_gradient(0, absent ? nullptr : model.tensors[0].gradient.data());
    skipping.step();
    if (!absent) straight.step();
  }

  EXPECT_EQ(model.tensors[0].value, other.tensors[0].value);
  EXPECT_NE(model.tensors[1].value, other.tensors[1].value);
}

TEST_F(Engine, NeverWritesAGradient) {
  for (const WeightDecay decay : {WeightDecay::decoupled, WeightDecay::l2}) {
    ToyModel<float> model(awkward_shapes());
    Recipe recipe = quick_recipe();
    recipe.weight_decay = decay;
    recipe.grafting = Sgd{};
    std::vector<std::vector<float>> before;
    for (const auto& tensor : model.tensors) before.push_back(tensor.gradient);
    Optimizer optimizer(*backend, *ranks, {model.group(recipe, {.beta1 = 0, .weight_decay = 0.5})});

    for (int step = 0; step < 4; ++step) optimizer.step();

    for (std::size_t t = 0; t < before.size(); ++t) EXPECT_EQ(model.tensors[t].gradient, before[t]);
  }
}

TEST_F(Engine, GivesTheSameBitsOnAnyNumberOfThreads) {
  std::vector<std::vector<std::vector<float>>> results;
  for (const int threads : {1, 2, 3}) {
    const auto cpu = cpu_backend({.threads = threads});
    ToyModel<float> model(awkward_shapes());
    Optimizer optimizer(*cpu, *ranks, {model.group(quick_recipe())});
    for (int step = 0; step < 7; ++step) {
      optimizer.step();
      model.new_gradients();
    }
    results.push_back(model.values());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(Engine, ReadsRatesLive) {
  ToyModel<float> changed({{9, 8}}), constant({{9, 8}});
  Optimizer a(*backend, *ranks, {changed.group(quick_recipe(), {.learning_rate = 0.5})});
  Optimizer b(*backend, *ranks, {constant.group(quick_recipe(), {.learning_rate = 0.25})});

  a.group(0).rates.learning_rate = 0.25;
  for (int step = 0; step < 3; ++step) {
    a.step();
    b.step();
  }

  EXPECT_EQ(changed.values(), constant.values());
}

TEST_F(Engine, WithLearningRateZeroChangesStateButNoValue) {
  ToyModel<float> model({{9, 8}});
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe(), {.learning_rate = 0})});
  const auto before = model.values();

  optimizer.step();

  EXPECT_EQ(model.values(), before);
  const SlotView moment = optimizer.slot("tensor0", 0, "filtered_gradient");
  EXPECT_NE(*static_cast<const float*>(moment.data), 0.0F);
}

TEST_F(Engine, TakesEmptyTensorsScalarsAndSidesOfOne) {
  ToyModel<double> model({{0, 4}, {}, {1, 1, 1}, {5, 1}});
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())});
  const auto before = model.values();

  for (int step = 0; step < 4; ++step) optimizer.step();

  EXPECT_TRUE(model.tensors[0].value.empty());
  for (std::size_t t = 1; t < 4; ++t) {
    EXPECT_NE(model.tensors[t].value, before[t]);
    for (const double x : model.tensors[t].value) EXPECT_TRUE(std::isfinite(x));
  }
  EXPECT_EQ(optimizer.steps("tensor0"), 0);
}

TEST_F(Engine, KeepsNoFactorsWhenItNeverPreconditions) {
  ToyModel<float> model({{64, 64}});
  Optimizer adamw(*backend, *ranks, {model.group(recipes::adamw())});
  Optimizer shampoo(*backend, *ranks, {model.group()});

  EXPECT_EQ(adamw.state_bytes(), 64 * 64 * 4 * 2);
  EXPECT_EQ(shampoo.state_bytes(), 64 * 64 * 4 * 2 + 2 * 64 * 65 * 4);
  EXPECT_EQ(adamw.slot_names("tensor0", 0),
            (std::vector<std::string>{"second_moment", "filtered_gradient"}));
  EXPECT_EQ(shampoo.slot_names("tensor0", 0),
            (std::vector<std::string>{"factor/0", "root/0", "factor/1", "root/1",
                                      "filtered_gradient", "grafting"}));
}

TEST_F(Engine, AddsAGroupWithoutTouchingTheOthers) {
  ToyModel<float> grown({{9, 8}, {13}}), alone({{9, 8}, {13}});
  const auto one = [](ToyModel<float>& model, std::size_t t) {
    ParameterGroup group{.recipe = quick_recipe()};
    group.recipe.refresh.staggered = false;  // alone, the second would have other phases
    group.parameters.push_back(model.parameter(t));
    return group;
  };
  Optimizer optimizer(*backend, *ranks, {one(grown, 0)});
  Optimizer first(*backend, *ranks, {one(alone, 0)});
  Optimizer second(*backend, *ranks, {one(alone, 1)});

  for (int step = 0; step < 3; ++step) {
    optimizer.step();
    first.step();
  }
  optimizer.add_group(one(grown, 1));
  for (int step = 0; step < 5; ++step) {
    optimizer.step();
    first.step();
    second.step();
  }

  EXPECT_EQ(grown.values(), alone.values());
  EXPECT_EQ(optimizer.steps("tensor0"), 8);
  EXPECT_EQ(optimizer.steps("tensor1"), 5);
}

TEST_F(Engine, NeedsEveryStepPrepared) {
  ToyModel<float> model({std::vector<std::int64_t>{4}});
  Optimizer optimizer(*backend, *ranks, {model.group()});

  EXPECT_THROW(optimizer.enqueue_step(), std::logic_error);
  optimizer.prepare_step();
  EXPECT_TRUE(optimizer.enqueue_step().applied());
  EXPECT_THROW(optimizer.enqueue_step(), std::logic_error);
}

TEST_F(Engine, DescribesItsPlan) {
  ToyModel<float> model({{9, 8}, {13}});
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())});

  const std::string text = optimizer.describe();

  EXPECT_NE(text.find("root_inverse"), std::string::npos) << text;
  EXPECT_NE(text.find("blocks"), std::string::npos) << text;
}

TEST(ElementwiseSlots, StartAtMultiplesOf16BytesForEveryBlock) {
  ToyModel<float> model(awkward_shapes());
  const auto backend = cpu_backend();
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())});
  int odd = 0;
  for (const auto& tensor : model.tensors)
    for (int block = 0; block < optimizer.block_count(tensor.name); ++block)
      for (const std::string slot : {"filtered_gradient", "grafting"}) {
        const SlotView view = optimizer.slot(tensor.name, block, slot);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % 16, 0u) << tensor.name << block;
        std::int64_t elements = 1;
        for (const std::int64_t side : view.extent) elements *= side;
        odd += elements % 4 != 0;
      }
  EXPECT_GT(odd, 0);
}

}  // namespace
}  // namespace shampoo::test
