// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_test_run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "grouping/blocks.h"
#include "kernels/buffer.h"
#include "shampoo/shampoo.h"
#include "tests/golden_test_json.h"
#include "tests/golden_test_recipe.h"
#include "tests/golden_test_solver_error.h"

namespace shampoo::test {
namespace {

/// One model, and the optimizer or optimizers that train it.
template <typename Real>
class Engine {
 public:
  Engine(const GoldenCase& golden, Merging merging, Communicator& ranks, Place place)
      : golden_(golden), backend_(backend_at(place, ranks.size() == 1 ? 0 : 1)), ranks_(ranks) {
    for (const GoldenParameter& parameter : golden.parameters) {
      // Never empty, so that tensors without elements have an address, too.
      const std::size_t bytes = (parameter.initial.size() + 1) * sizeof(Real);
      values_.emplace_back(*backend_, bytes);
      gradients_.emplace_back(*backend_, bytes);
      send(parameter.initial, values_.back());
    }
    std::vector<int> all(golden.groups.size());
    std::iota(all.begin(), all.end(), 0);
    if (merging == Merging::one_optimizer)
      add_optimizer(all);
    else
      for (const int group : all) add_optimizer({group});
  }

  void step(int step) {
    for (Trained& trained : optimizers_) {
      for (std::size_t g = 0; g < trained.groups.size(); ++g) prepare(step, trained, g);
      trained.optimizer->step();
      if (std::is_same_v<Real, float> && ranks_.size() == 1)
        solver_error_ = std::max(solver_error_, trained.meter->measure(*trained.optimizer));
    }
  }

  /// The evaluation values. Throws std::runtime_error unless the training values come back.
  std::vector<Numbers> evaluations() {
    const std::vector<Numbers> before = values();
    std::vector<Evaluation> guards;
    for (Trained& trained : optimizers_) guards.push_back(trained.optimizer->evaluate());
    std::vector<Numbers> found = values();
    for (Evaluation& guard : guards) guard.end();
    if (values() != before) throw std::runtime_error("evaluate() changed the training values");
    return found;
  }

  std::vector<Numbers> values() const {
    std::vector<Numbers> all;
    for (const kernels::Buffer& value : values_) {
      std::vector<Real> numbers(value.bytes() / sizeof(Real));
      backend_->download(numbers.data(), value.data(), value.bytes());
      backend_->synchronize();
      all.emplace_back(numbers.begin(), numbers.end() - 1);
    }
    return all;
  }

  double solver_error() const { return solver_error_; }

 private:
  struct Trained {
    std::vector<int> groups;                     ///< of the case
    std::vector<std::vector<int>> members = {};  ///< parameters of the case, per group
    std::unique_ptr<Optimizer> optimizer = nullptr;
    std::unique_ptr<SolverErrorMeter> meter = nullptr;
  };

  void add_optimizer(const std::vector<int>& groups) {
    Trained trained{.groups = groups};
    std::vector<ParameterGroup> list;
    for (const int g : groups) {
      list.push_back({.rates = golden_.groups[g].rates, .recipe = golden_.groups[g].recipe});
      trained.members.emplace_back();
      for (std::size_t i = 0; i < golden_.parameters.size(); ++i) {
        if (golden_.parameters[i].group != g) continue;
        trained.members.back().push_back(static_cast<int>(i));
        list.back().parameters.push_back({.name = golden_.parameters[i].name,
                                          .shape = golden_.parameters[i].shape,
                                          .value = static_cast<Real*>(values_[i].data()),
                                          .gradient = static_cast<Real*>(gradients_[i].data())});
      }
    }
    trained.optimizer = std::make_unique<Optimizer>(*backend_, ranks_, std::move(list));
    trained.meter = std::make_unique<SolverErrorMeter>(*backend_);
    optimizers_.push_back(std::move(trained));
  }

  void send(const Numbers& numbers, const kernels::Buffer& to) {
    const std::vector<Real> rounded(numbers.begin(), numbers.end());
    backend_->upload(to.data(), rounded.data(), rounded.size() * sizeof(Real));
    backend_->synchronize();
  }

  /// Scheduled rates and gradients of one group.
  void prepare(int step, Trained& trained, std::size_t g) {
    Group& group = trained.optimizer->group(static_cast<int>(g));
    for (const auto& [name, values] : golden_.groups[trained.groups[g]].schedule)
      set_rate(group.rates, name, values[step]);
    for (std::size_t j = 0; j < trained.members[g].size(); ++j) {
      const int i = trained.members[g][j];
      const std::optional<Numbers>& gradient = golden_.parameters[i].gradients[step];
      if (gradient) send(*gradient, gradients_[i]);
      group.set_gradient(j, gradient ? gradients_[i].data() : nullptr);
    }
  }

  const GoldenCase& golden_;
  std::shared_ptr<kernels::Backend> backend_;
  Communicator& ranks_;
  std::vector<kernels::Buffer> values_, gradients_;
  std::vector<Trained> optimizers_;
  double solver_error_ = 0;
};

/// Takes all steps; see Values.
template <typename Real>
Values train(const GoldenCase& golden, Engine<Real>& training) {
  Values values;
  std::map<int, std::vector<Numbers>> evaluations;
  for (int step = 0; step < golden.steps; ++step) {
    training.step(step);
    values.push_back(training.values());
    if (std::ranges::count(golden.evaluate_after, step + 1) > 0)
      evaluations[step + 1] = training.evaluations();
  }
  for (const int step : golden.evaluate_after) values.push_back(evaluations.at(step));
  return values;
}

GoldenCase in_float32(GoldenCase golden) {
  for (GoldenGroup& group : golden.groups) {
    group.recipe.arithmetic = Arithmetic::float32;
    auto* const root_inverse = std::get_if<RootInverse>(&group.recipe.preconditioner);
    if (!root_inverse) continue;
    if (auto* newton = std::get_if<CoupledNewton>(&root_inverse->solver))
      newton->tolerance = std::max(newton->tolerance, CoupledNewton{}.tolerance);
    if (auto* higher = std::get_if<CoupledHigherOrder>(&root_inverse->solver))
      higher->tolerance = std::max(higher->tolerance, CoupledHigherOrder{}.tolerance);
  }
  return golden;
}

std::int64_t longest_side(const GoldenCase& golden, const GoldenParameter& parameter) {
  const Blocking& blocking = golden.groups[parameter.group].recipe.blocking;
  const grouping::Shape merged =
      grouping::merge_small_dimensions(parameter.shape, blocking.size, blocking.target_order);
  std::int64_t longest = 0;
  for (const std::int64_t side : merged) longest = std::max(longest, std::min(side, blocking.size));
  return longest;
}

}  // namespace

Values run_in_float64(const GoldenCase& golden, Merging merging, Communicator& ranks, Place place) {
  Engine<double> training(golden, merging, ranks, place);
  return train(golden, training);
}

Float32Run run_in_float32(const GoldenCase& golden, Merging merging, Communicator& ranks,
                          Place place) {
  const GoldenCase rounded = in_float32(golden);
  Engine<float> training(rounded, merging, ranks, place);
  Float32Run run{.values = train(rounded, training)};
  run.solver_error = training.solver_error();
  return run;
}

Values run(const GoldenCase& golden, Type type, Merging merging, Communicator& ranks, Place place) {
  return type == Type::float64 ? run_in_float64(golden, merging, ranks, place)
                               : run_in_float32(golden, merging, ranks, place).values;
}

std::string beyond_float32(const GoldenCase& golden) {
  // A decomposition in float32 cannot tell eigenvalues below side * 2^-23 of the largest from 0.
  for (const GoldenParameter& parameter : golden.parameters) {
    const Recipe& recipe = golden.groups[parameter.group].recipe;
    const auto* const root_inverse = std::get_if<RootInverse>(&recipe.preconditioner);
    const auto* const eigen = root_inverse ? std::get_if<Eigen>(&root_inverse->solver) : nullptr;
    if (!eigen || !eigen->pseudo_inverse) continue;
    const double floor = static_cast<double>(longest_side(golden, parameter)) *
                         std::numeric_limits<float>::epsilon();
    const std::optional<double> cut = eigen->pseudo_inverse->relative_tolerance;
    if (cut && *cut < floor)
      return parameter.name + ": the rank is cut at " + Json(*cut).dump() +
             " of the largest eigenvalue, under float32's floor of " + Json(floor).dump();
  }
  return "";
}

}  // namespace shampoo::test
