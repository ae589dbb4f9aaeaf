// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "shampoo/recipes.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/device/ranks_at.h"

namespace shampoo::test {

/// A group for every tensor of awkward shapes, with two recipes in turn; tensor 4 has no gradient
/// in every third step. Gradients are those of the loss times the optimizer's loss scale.
class GradientRun {
 public:
  GradientRun(kernels::Backend& backend, Communicator& communicator,
              const OptimizerOptions& options)
      : model(awkward_shapes(), 1, &backend), optimizer(backend, communicator, groups(), options) {}

  /// `edit` changes the gradients as they are without a loss scale.
  template <typename Edit>
  StepResult step(const Edit& edit) {
    model.new_gradients();
    edit(model);
    const auto scale = static_cast<float>(optimizer.loss_scale());
    for (auto& tensor : model.tensors)
      for (float& g : tensor.gradient) g *= scale;
    model.send_gradients();
    optimizer.group(4).set_gradient(0,
                                    ++steps_ % 3 == 0 ? nullptr : model.parameter(4).gradient.data);
    return optimizer.step();
  }
  StepResult step() {
    return step([](auto&) {});
  }
  /// With an infinite element.
  StepResult overflow() {
    return step([](auto& m) { m.tensors[3].gradient[2] = std::numeric_limits<float>::infinity(); });
  }

  ToyModel<float> model;
  Optimizer optimizer;

 private:
  std::vector<ParameterGroup> groups() {
    Recipe elementwise = recipes::adamw();
    auto all = model.groups(quick_recipe(), {.weight_decay = 0.1});
    for (std::size_t g = 1; g < all.size(); g += 2) {
      all[g].recipe = elementwise;
      all[g].rates = read_rates(elementwise, {.learning_rate = 2e-3, .weight_decay = 0.1});
    }
    return all;
  }

  int steps_ = 0;
};

/// What a run left behind, on one rank.
struct GradientOutcome {
  std::vector<std::vector<float>> values;
  std::vector<double> norms, factors;
  double loss_scale = 0;
  int spikes = 0;
  bool operator==(const GradientOutcome&) const = default;
};

/// Ten steps, of which the sixth overflows.
inline GradientOutcome outcome_of(kernels::Backend& backend, Communicator& communicator,
                                  const OptimizerOptions& options) {
  GradientRun run(backend, communicator, options);
  GradientOutcome outcome;
  for (int s = 0; s < 10; ++s) {
    const StepResult result = s == 5 ? run.overflow() : run.step();
    if (s != 5) outcome.norms.push_back(result.gradient_norm());
    outcome.factors.push_back(result.clip_factor());
    outcome.spikes += result.spike() ? 1 : 0;
  }
  outcome.values = run.model.values();
  outcome.loss_scale = run.optimizer.loss_scale();
  return outcome;
}

struct NamedGradientOptions {
  std::string name;
  GradientOptions options;
};

inline std::vector<NamedGradientOptions> gradient_option_sets() {
  return {{"none", {}},
          {"fixed_scale", {.loss_scaling = FixedLossScale{1024}}},
          {"dynamic_scale", {.loss_scaling = DynamicLossScale{.interval = 3}}},
          {"global_norm", {.clipping = ClipGlobalNorm{2}}},
          {"parameter_norm", {.clipping = ClipParameterNorm{0.7}}},
          {"value", {.clipping = ClipValue{0.5}}},
          {"spikes", {.spike_guard = {.deviations = 1, .window = 3}}},
          {"dynamic_scale_and_global_norm",
           {.loss_scaling = DynamicLossScale{.interval = 3}, .clipping = ClipGlobalNorm{2}}}};
}

/// One of the sets at one place.
class OfGradientOptions : public ::testing::TestWithParam<std::tuple<Place, int>> {
 protected:
  Place place = std::get<Place>(GetParam());
  NamedGradientOptions set =
      gradient_option_sets()[static_cast<std::size_t>(std::get<int>(GetParam()))];
};

/// All sets on the host and on the emulated device.
inline auto gradient_options_everywhere() {
  return ::testing::Combine(::testing::Values(Place::cpu, Place::emulated),
                            ::testing::Range(0, static_cast<int>(gradient_option_sets().size())));
}

inline std::string name_of_gradient_options(
    const ::testing::TestParamInfo<std::tuple<Place, int>>& tested) {
  const auto [place, index] = tested.param;
  return name_of(place) + "_" + gradient_option_sets()[static_cast<std::size_t>(index)].name;
}

}  // namespace shampoo::test
