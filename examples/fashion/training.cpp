// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/training.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>
#include <span>

#include "examples/fashion/batches.h"
#include "examples/fashion/layout.h"
#include "examples/fashion/stopwatch.h"

namespace fashion {

namespace {

constexpr int batch_size = 256;
constexpr double warm_up = 50;   // steps
constexpr double smooth = 0.95;  // of the loss that is shown

/// Rises for 50 steps and falls along half a cosine to 0, both at once.
double schedule(int step, int steps) {
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * step / steps));
  return std::min(1.0, (step + 1) / warm_up) * fall;
}

/// Percent of the images that are put in the right class.
double accuracy(Network<float>& network, const LabelledImages& images,
                const Normalisation& normalisation) {
  std::vector<float> batch(batch_size * image_size);
  int correct = 0;
  for (int first = 0; first < images.count(); first += batch_size) {
    const int count = std::min(batch_size, images.count() - first);
    normalisation.apply(std::span(images.pixels).subspan(first * image_size, count * image_size),
                        batch.data());
    correct += network
                   .evaluate(std::span<const float>(batch).first(count * image_size),
                             std::span(images.labels).subspan(first, count))
                   .correct;
  }
  return 100.0 * correct / images.count();
}

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

Outcome train(const Task& task, const Attempt& attempt, Progress& progress) {
  const Stopwatch watch;
  Workers workers(task.threads);
  Network<float> network(workers, attempt.seed, batch_size);
  Batches batches(task.dataset.train, task.normalisation, batch_size, attempt.seed);
  const auto backend = shampoo::cpu_backend({.threads = task.threads});
  const auto ranks = shampoo::one_rank();
  shampoo::Optimizer optimizer(*backend, *ranks,
                               parameter_groups(attempt.method, attempt.preconditioning, network));

  Outcome outcome{attempt, {}, {}, batches.per_epoch(), 0, 0};
  const int planned = task.epochs * batches.per_epoch();
  const int steps = std::min(planned, task.steps.value_or(planned));
  double shown_loss = 0;
  for (int step = 0; step < steps; ++step) {
    batches.advance();
    const Score score = network.forward_backward(batches.images(), batches.labels());
    const double rate = attempt.rate * schedule(step, planned);
    outcome.optimizer_seconds += timed_step(optimizer, rate);

    const double loss = score.loss / batch_size;
    outcome.losses.push_back(loss);
    shown_loss = step == 0 ? loss : smooth * shown_loss + (1 - smooth) * loss;
    progress.show({name(attempt.method), step + 1, steps, shown_loss, rate,
                   watch.seconds() / (step + 1) * (steps - step - 1)});
    const int into_epoch = step % batches.per_epoch() + 1;
    if (into_epoch == batches.per_epoch() || step + 1 == steps) {
      outcome.epochs.push_back({mean(std::span(outcome.losses).last(into_epoch)),
                                accuracy(network, task.dataset.test, task.normalisation)});
      progress.note(sentence(outcome));
    }
  }
  outcome.seconds = watch.seconds();
  return outcome;
}

}  // namespace fashion
