// SPDX-License-Identifier: Apache-2.0
// All that lies between backward passes and values, together.
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "shampoo/gradients.h"
#include "tests/shampoo/gradients/gradient_run.h"
#include "tests/shampoo/transforms/transformed_run.h"

namespace shampoo::test {
namespace {

/// What a run left behind, on one rank.
struct PipelineOutcome {
  std::vector<std::vector<float>> values, evaluated;
  std::vector<double> norms, factors;
  StateDict state;
  bool operator==(const PipelineOutcome&) const = default;
};

/// A group for every tensor of awkward shapes, two recipes in turn, with schedules, a rate of one
/// parameter's own, averages and projection of values, clipping of updates, sums of two
/// micro-batches. Tensor 6 is frozen; tensor 4 has no gradient in every third step.
class PipelineRun {
 public:
  PipelineRun(kernels::Backend& backend, Communicator& communicator,
              const OptimizerOptions& options)
      : backend_(backend), communicator_(communicator), options_(options) {
    make_optimizer();
    optimizer_->group(3).set_rate(0, &Rates::weight_decay, 0);
  }

  /// Ten steps, of which the sixth overflows. After the fifth the state may move to another
  /// optimizer.
  PipelineOutcome train(bool moves) {
    PipelineOutcome outcome;
    for (int s = 0; s < 10; ++s) {
      if (s == 5 && moves) {
        const StateDict state = optimizer_->full_state_dict();
        make_optimizer();
        optimizer_->load_state_dict(state);
      }
      const StepResult result = step(s);
      outcome.factors.push_back(result.clip_factor());
      if (s != 5) outcome.norms.push_back(result.gradient_norm());
    }
    Evaluation evaluation = optimizer_->evaluate();
    outcome.evaluated = model_.values();
    evaluation.end();
    outcome.values = model_.values();
    outcome.state = optimizer_->full_state_dict();
    return outcome;
  }

 private:
  void make_optimizer() {
    Recipe factored = quick_recipe(), elementwise = projected(recipes::adamw(), Bounds{-2, 2});
    factored.update_scaling = UpdateClipping{.limit = 0.3};
    factored.value_averaging = ExponentialAverage{.decay = 0.5, .debias = true};
    elementwise.value_averaging = StochasticWeightAverage{.first = 2, .every = 3};
    std::vector<ParameterGroup> groups;
    for (std::size_t t = 0; t < sums_.parameters().size(); ++t) {
      const Recipe& recipe = t % 2 == 0 ? factored : elementwise;
      const double rate = 1e-2 * static_cast<double>(t + 1);
      groups.push_back({.parameters = {sums_.parameters()[t]},
                        .rates = read_rates(recipe, {.learning_rate = rate, .weight_decay = 0.1}),
                        .recipe = recipe,
                        .schedules = {{"learning_rate", schedules::Cosine{.steps = 15}}}});
    }
    groups[6].parameters[0].frozen = true;
    optimizer_.reset();
    optimizer_.emplace(backend_, communicator_, groups, options_);
  }

  StepResult step(int s) {
    sums_.clear();
    sums_.set_gradient(4, s % 3 == 2 ? nullptr : model_.parameter(4).gradient.data);
    const auto scale = static_cast<float>(optimizer_->loss_scale());
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      model_.new_gradients();
      if (s == 5) model_.tensors[3].gradient[2] = std::numeric_limits<float>::infinity();
      for (auto& tensor : model_.tensors)
        for (float& g : tensor.gradient) g *= scale;
      model_.send_gradients();
      sums_.add();
    }
    for (int g = 0; g < optimizer_->group_count(); ++g) sums_.set_gradients(optimizer_->group(g));
    return optimizer_->step();
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    for (std::size_t t = 0; t < model_.tensors.size(); ++t) all.push_back(model_.parameter(t));
    return all;
  }

  kernels::Backend& backend_;
  Communicator& communicator_;
  OptimizerOptions options_;
  ToyModel<float> model_{awkward_shapes(), 1, &backend_};
  GradientAccumulator sums_{backend_, parameters(), {.micro_batches = 2}};
  std::optional<Optimizer> optimizer_;
};

class WholePipeline : public OfGradientOptions {};

TEST_P(WholePipeline, GivesTheSameBitsMergedOrNotResumedOrNotOnOneRankAndOnThree) {
  require_ranks(place);
  if (IsSkipped()) return;
  PipelineOutcome expected;
  run_ranks_at(place, 1, [&](Communicator& communicator, kernels::Backend& backend) {
    expected = PipelineRun(backend, communicator, {.gradients = set.options}).train(false);
  });
  EXPECT_NE(expected.evaluated, expected.values);
  for (const int ranks : {1, 3})
    for (const bool merges : {true, false})
      run_ranks_at(place, ranks, [&](Communicator& communicator, kernels::Backend& backend) {
        PipelineRun run(backend, communicator, {.gradients = set.options, .merge_groups = merges});
        EXPECT_EQ(run.train(/*moves=*/merges), expected) << ranks << ' ' << merges;
      });
}

INSTANTIATE_TEST_SUITE_P(All, WholePipeline, gradient_options_everywhere(),
                         name_of_gradient_options);

}  // namespace
}  // namespace shampoo::test
