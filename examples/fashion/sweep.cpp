// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/sweep.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace fashion {

namespace {

constexpr int sweep_seeds = 3;

std::vector<Outcome> train_seeds(shampoo::Communicator& ranks, const Task& task,
                                 const Options& options, const Method& method, double rate,
                                 Progress& progress) {
  std::vector<Outcome> runs;
  for (int s = 0; s < (options.sweep ? sweep_seeds : 1); ++s) {
    const Attempt attempt{&method, options.preconditioning, rate, options.seed + s};
    if (options.sweep) {
      char title[80];
      std::snprintf(title, sizeof title, "%s, rate %.3g, seed %llu", method.name.c_str(), rate,
                    static_cast<unsigned long long>(attempt.seed));
      progress.note(title);
    }
    runs.push_back(train(ranks, task, attempt, progress));
  }
  return runs;
}

}  // namespace

Comparison compare(shampoo::Communicator& ranks, const Task& task, const Options& options,
                   Progress& progress) {
  Comparison comparison;
  std::vector<const Method*> methods;
  if (options.routed)
    methods = {&*options.routed};
  else
    for (const std::string& key : options.methods) methods.push_back(&method(key));
  for (const Method* const each : methods) {
    const Method& chosen = *each;
    std::vector<double> rates = {options.rate.value_or(chosen.rate)};
    if (options.sweep) rates = {chosen.rate / 3, chosen.rate, 3 * chosen.rate};
    double lowest = std::numeric_limits<double>::infinity();
    std::vector<Outcome> best;  // of all seeds
    for (const double rate : rates) {
      auto runs = train_seeds(ranks, task, options, chosen, rate, progress);
      comparison.checksum = runs.back().checksum;
      const double loss = comparison.results.emplace_back(runs).losses.back();
      if (best.empty() || !std::isfinite(lowest) || loss < lowest) {
        lowest = loss;
        best = std::move(runs);
      }
    }
    comparison.curves.push_back(std::move(best.front()));
  }
  return comparison;
}

}  // namespace fashion
