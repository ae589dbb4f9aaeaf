// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/training.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numbers>
#include <numeric>
#include <span>
#include <utility>

#include "examples/fashion/agreement.h"
#include "examples/fashion/replica.h"
#include "examples/fashion/stopwatch.h"

namespace fashion {

namespace {

constexpr double warm_up = 50;      // steps
constexpr double smooth = 0.95;     // of the loss that is shown
constexpr int losses_at_once = 10;  // that one collective sums over the ranks

/// Rises for 50 steps and falls along half a cosine to 0, both at once.
double schedule(int step, int steps) {
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * step / steps));
  return std::min(1.0, (step + 1) / warm_up) * fall;
}

/// The losses of all steps, which are summed over the ranks several at a time.
struct LossCurve {
  std::vector<double> values;  ///< means; from `settled` on, sums over this rank's images
  std::size_t settled = 0;
  double smoothed = 0;

  /// Collective.
  void settle(shampoo::Communicator& ranks) {
    const std::span fresh = std::span(values).subspan(settled);
    ranks.all_reduce(fresh.data(), std::ssize(fresh), shampoo::Type::float64);
    for (double& loss : fresh) {
      loss /= batch_size;
      smoothed = settled++ == 0 ? loss : smooth * smoothed + (1 - smooth) * loss;
    }
  }
};

double mean(std::span<const double> numbers) {
  return std::reduce(numbers.begin(), numbers.end()) / static_cast<double>(numbers.size());
}

std::string sentence(const Outcome& outcome) {
  char text[120];
  std::snprintf(text, sizeof text, "%-8s epoch %zu: training loss %.4f, test accuracy %.2f %%",
                name(outcome.attempt.method), outcome.epochs.size(), outcome.epochs.back().loss,
                outcome.epochs.back().accuracy);
  return text;
}

/// One step with all learning rates at `rate` times their group's factor; returns its seconds.
double timed_step(shampoo::Optimizer& optimizer, double rate) {
  for (int g = 0; g < optimizer.group_count(); ++g)
    optimizer.group(g).rates.learning_rate = rate * rate_factor(g);
  const Stopwatch watch;
  optimizer.step();
  return watch.seconds();
}

}  // namespace

Outcome train(shampoo::Communicator& ranks, const Task& task, const Attempt& attempt,
              Progress& progress) {
  const Stopwatch watch;
  Replica replica(ranks, task.dataset, task.normalisation, task.threads, attempt.seed);
  const auto backend = shampoo::cpu_backend({.threads = task.threads});
  shampoo::Optimizer optimizer(
      *backend, ranks,
      parameter_groups(attempt.method, attempt.preconditioning, replica.network()));

  const int per_epoch = replica.steps_per_epoch();
  const int planned = task.epochs * per_epoch;
  const int steps = std::min(planned, task.steps.value_or(planned));
  Outcome outcome{attempt, {}, {}, per_epoch, 0, 0, 0};
  LossCurve curve;
  for (int step = 0; step < steps; ++step) {
    curve.values.push_back(replica.find_gradient());
    const double rate = attempt.rate * schedule(step, planned);
    outcome.optimizer_seconds += timed_step(optimizer, rate);

    const int into_epoch = step % per_epoch + 1;
    const bool ends = into_epoch == per_epoch || step + 1 == steps;
    if (ends || step == 0 || (step + 1) % losses_at_once == 0) curve.settle(ranks);
    progress.show({name(attempt.method), step + 1, steps, curve.smoothed, rate,
                   watch.seconds() / (step + 1) * (steps - step - 1)});
    if (!ends) continue;
    outcome.epochs.push_back(
        {mean(std::span(curve.values).last(into_epoch)), replica.test_accuracy()});
    progress.note(sentence(outcome));
  }
  outcome.losses = std::move(curve.values);
  outcome.checksum = agreed_checksum(ranks, replica.network());
  outcome.seconds = watch.seconds();
  return outcome;
}

}  // namespace fashion
