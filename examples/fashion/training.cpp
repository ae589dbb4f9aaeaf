// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "examples/fashion/agreement.h"
#include "examples/fashion/replica.h"
#include "examples/fashion/schedules.h"
#include "examples/fashion/stopwatch.h"

namespace fashion {

namespace {

constexpr double warm_up = 50;      // steps
constexpr double smooth = 0.95;     // of the loss that is shown
constexpr int losses_at_once = 10;  // that one collective sums over the ranks

/// Rises for 50 steps and falls along half a cosine to 0, both at once, unless it is constant then.
double schedule(const Method& method, int step, int steps) {
  const double fall = method.decays ? 0.5 * (1 + std::cos(std::numbers::pi * step / steps)) : 1;
  return std::min(1.0, (step + 1) / warm_up) * fall;
}

/// The losses of all steps, which are summed over the ranks several at a time.
class LossCurve {
 public:
  /// `losses` hold those of the steps before `step`.
  LossCurve(std::vector<double>& losses, int step) : losses_(losses) {
    for (; settled_ < step; ++settled_) smooth_in(losses_[settled_]);
    taken_ = settled_;
  }

  /// The next step's: the sum over this rank's images.
  void add(double loss) { losses_[taken_++] = loss; }

  /// Makes means of those that were added. Collective.
  void settle(shampoo::Communicator& ranks) {
    const std::span fresh = std::span(losses_).subspan(settled_, taken_ - settled_);
    ranks.all_reduce(fresh.data(), std::ssize(fresh), shampoo::Type::float64);
    for (double& loss : fresh) smooth_in(loss /= batch_size);
    settled_ = taken_;
  }

  double smoothed() const { return smoothed_; }

 private:
  void smooth_in(double loss) {
    smoothed_ = seen_++ == 0 ? loss : smooth * smoothed_ + (1 - smooth) * loss;
  }

  std::vector<double>& losses_;
  int taken_ = 0, settled_ = 0, seen_ = 0;
  double smoothed_ = 0;
};

double mean(std::span<const double> numbers) {
  return std::reduce(numbers.begin(), numbers.end()) / static_cast<double>(numbers.size());
}

std::string sentence(const Method& method, std::size_t epoch, const Epoch& result) {
  char text[120];
  std::snprintf(text, sizeof text, "%s epoch %zu: training loss %.4f, test accuracy %.2f %%",
                method.name.c_str(), epoch, result.loss, result.accuracy);
  return text;
}

/// The groups of an attempt. With a schedule of the library they begin with their peak rates.
std::vector<shampoo::ParameterGroup> groups_of(const Task& task, const Attempt& attempt,
                                               Replica& replica) {
  auto groups = parameter_groups(*attempt.method, attempt.preconditioning, replica.parameters());
  const int per_epoch = replica.steps_per_epoch();
  for (shampoo::ParameterGroup& group : groups) {
    if (task.ema) group.recipe.value_averaging = shampoo::ExponentialAverage{.decay = *task.ema};
    if (task.schedule.empty()) continue;
    group.rates.learning_rate *= attempt.rate;
    group.schedules["learning_rate"] =
        schedule_named(task.schedule, task.epochs * per_epoch, per_epoch);
  }
  return groups;
}

std::vector<double> learning_rates(shampoo::Optimizer& optimizer) {
  std::vector<double> rates;
  for (int g = 0; g < optimizer.group_count(); ++g)
    rates.push_back(optimizer.group(g).rates.learning_rate);
  return rates;
}

/// Dynamic loss scaling where gradients are in float16.
shampoo::OptimizerOptions options_of(const Task& task, const Attempt& attempt) {
  shampoo::OptimizerOptions options;
  if (task.clip) options.gradients.clipping = shampoo::ClipGlobalNorm{*task.clip};
  if (task.numerics.precision == Precision::fp16)
    options.gradients.loss_scaling = shampoo::DynamicLossScale{};
  if (!task.trace.empty()) options.trace = task.trace / attempt.method->key;
  return options;
}

/// The rest, such as the options of the recipe, the library compares.
examples::Identity identity(const Task& task, const Attempt& attempt) {
  using examples::text_of;
  constexpr std::array precisions = {"fp32", "bf16", "fp16"};
  examples::Identity all = {
      {"--seed", text_of(attempt.seed)},
      {"--rate", text_of(attempt.rate)},
      {"--schedule", task.schedule.empty() ? "its own" : task.schedule},
      {"--epochs", text_of(task.epochs)},
      {"--precision", precisions[static_cast<std::size_t>(task.numerics.precision)]},
      {"--accumulate", text_of(task.numerics.micro_batches)},
      {"--clip", text_of(task.clip)}};
  if (attempt.method->routes) all["--routes"] = attempt.method->routes->to_json();
  return all;
}

/// One step; returns its seconds.
double timed_step(shampoo::Optimizer& optimizer) {
  const Stopwatch watch;
  optimizer.step();
  return watch.seconds();
}

/// One run, from its start or from a checkpoint on.
class Run {
 public:
  Run(shampoo::Communicator& ranks, const Task& task, const Attempt& attempt, Progress& progress)
      : ranks_(ranks),
        attempt_(attempt),
        progress_(progress),
        replica_(ranks, task.dataset, task.normalisation, task.threads, attempt.seed,
                 task.numerics),
        backend_(shampoo::cpu_backend({.threads = task.threads})),
        optimizer_(*backend_, ranks, groups_of(task, attempt, replica_), options_of(task, attempt)),
        factors_(learning_rates(optimizer_)),
        per_epoch_(replica_.steps_per_epoch()),
        planned_(task.epochs * per_epoch_),
        scheduled_(!task.schedule.empty()),
        steps_(std::min(planned_, task.steps.value_or(planned_))) {
    state_.losses.resize(static_cast<std::size_t>(planned_));
    state_.accuracies.resize(static_cast<std::size_t>(task.epochs));
    if (!task.checkpoints) return;
    checkpoints_.emplace(ranks, optimizer_, replica_.network(), *task.checkpoints,
                         attempt.method->name, identity(task, attempt));
    if (const std::string found = checkpoints_->resume(state_); !found.empty()) {
      replica_.seek(state_.step);
      replica_.write_values();
      progress.note(attempt.method->name + " " + found);
    }
  }

  Outcome train() {
    const double before = state_.seconds;
    const int begin = state_.step;
    LossCurve curve(state_.losses, begin);
    while (state_.step < steps_) {
      curve.add(replica_.find_gradient(optimizer_.loss_scale()));
      if (!scheduled_) set_rates();
      state_.optimizer_seconds += timed_step(optimizer_);
      replica_.read_values();
      const double rate = optimizer_.group(0).rates.learning_rate;
      ++state_.step;
      if (state_.step == 1 || state_.step == steps_ || state_.step % losses_at_once == 0 ||
          state_.step % per_epoch_ == 0 || saves())
        curve.settle(ranks_);
      if (state_.step % per_epoch_ == 0) finish_epoch(per_epoch_);
      state_.seconds = before + watch_.seconds();
      save();
      progress_.show({attempt_.method->name.c_str(), state_.step, steps_, curve.smoothed(), rate,
                      watch_.seconds() / (state_.step - begin) * (steps_ - state_.step)});
    }
    return outcome();
  }

 private:
  /// All learning rates <- the method's own schedule times their group's factor.
  void set_rates() {
    const double rate = attempt_.rate * schedule(*attempt_.method, state_.step, planned_);
    for (int g = 0; g < optimizer_.group_count(); ++g)
      optimizer_.group(g).rates.learning_rate = rate * factors_[static_cast<std::size_t>(g)];
  }

  bool saves() const { return checkpoints_ && checkpoints_->is_due(state_.step); }

  void save() {
    if (!checkpoints_) return;
    const std::string complaint = checkpoints_->save(state_, state_.step == steps_);
    if (!complaint.empty()) progress_.note(complaint);
    if (state_.step == steps_ && !checkpoints_->has(steps_)) unsaved_ = complaint;
  }

  /// The epoch that ends with this step, of which so many steps were taken.
  Epoch epoch(int step, int steps, double accuracy) const {
    return {mean(std::span(state_.losses).subspan(step - steps, steps)), accuracy};
  }

  double test_accuracy() {
    shampoo::Evaluation evaluation = optimizer_.evaluate();
    replica_.read_values();
    const double accuracy = replica_.test_accuracy();
    evaluation.end();
    replica_.read_values();
    return accuracy;
  }

  void finish_epoch(int steps) {
    const int place = state_.step / per_epoch_ - 1;
    state_.accuracies[place] = test_accuracy();
    progress_.note(sentence(*attempt_.method, static_cast<std::size_t>(place) + 1,
                            epoch(state_.step, steps, state_.accuracies[place])));
  }

  Outcome outcome() {
    Outcome outcome{attempt_, {}, {}, {}, per_epoch_, 0, 0, 0};
    if (scheduled_) outcome.schedule = optimizer_.group(0).schedules.at("learning_rate");
    for (int e = 0; e < state_.step / per_epoch_; ++e)
      outcome.epochs.push_back(epoch((e + 1) * per_epoch_, per_epoch_, state_.accuracies[e]));
    if (const int rest = state_.step % per_epoch_; rest > 0) {
      outcome.epochs.push_back(epoch(state_.step, rest, test_accuracy()));
      progress_.note(sentence(*attempt_.method, outcome.epochs.size(), outcome.epochs.back()));
    }
    outcome.losses = state_.losses;
    outcome.losses.resize(static_cast<std::size_t>(state_.step));
    outcome.optimizer_seconds = state_.optimizer_seconds;
    outcome.checksum = agreed_checksum(ranks_, replica_.network());
    outcome.seconds = state_.seconds;
    outcome.unsaved = unsaved_;
    return outcome;
  }

  const Stopwatch watch_;
  shampoo::Communicator& ranks_;
  const Attempt attempt_;
  Progress& progress_;
  Replica replica_;
  const std::unique_ptr<shampoo::Backend> backend_;
  shampoo::Optimizer optimizer_;
  const std::vector<double> factors_;  ///< of learning rates, by group
  const int per_epoch_, planned_;
  const bool scheduled_;  ///< the optimizer sets the learning rates
  const int steps_;
  RunState state_;
  std::optional<Checkpoints> checkpoints_;
  std::string unsaved_;  ///< why there is no checkpoint at the end; empty: there is, or need not be
};

}  // namespace

Outcome train(shampoo::Communicator& ranks, const Task& task, const Attempt& attempt,
              Progress& progress) {
  return Run(ranks, task, attempt, progress).train();
}

}  // namespace fashion
