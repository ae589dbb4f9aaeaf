// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/table.h"

#include <algorithm>
#include <cstdio>

namespace fashion {

namespace {

constexpr std::size_t most_losses = 6;

template <typename... Values>
std::string text(const char* format, Values... values) {
  char line[160];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

/// Epochs that the table shows: evenly spaced, the last one included.
std::vector<std::size_t> shown(std::size_t epochs) {
  const std::size_t distance = (epochs + most_losses - 1) / most_losses;
  std::vector<std::size_t> places;
  for (std::size_t e = (epochs - 1) % distance; e < epochs; e += distance) places.push_back(e);
  return places;
}

}  // namespace

Result::Result(std::span<const Outcome> runs)
    : method(*runs.front().attempt.method),
      rate(runs.front().attempt.rate),
      losses(runs.front().epochs.size()) {
  const auto count = static_cast<double>(runs.size());
  for (const Outcome& run : runs) {
    for (std::size_t e = 0; e < losses.size(); ++e) losses[e] += run.epochs[e].loss / count;
    accuracy += run.epochs.back().accuracy / count;
    optimizer_seconds += run.optimizer_seconds / count;
    seconds += run.seconds / count;
  }
}

std::string results_table(std::span<const Result> results) {
  std::size_t name_width = 9;
  for (const Result& result : results) name_width = std::max(name_width, result.method.name.size());
  const auto epochs = shown(results.front().losses.size());
  const int width = static_cast<int>(name_width);

  std::string losses_head, rule;
  for (const std::size_t e : epochs) losses_head += text("  loss %-3zu", e + 1);
  std::string table = text("%-*s    rate%s   test %%  optimizer s   all s\n", width, "optimizer",
                           losses_head.c_str());
  for (std::size_t i = 0; i < name_width + 39 + 10 * epochs.size(); ++i) rule += "─";
  table += rule + "\n";
  for (const Result& result : results) {
    table += text("%-*s  %6.3g", width, result.method.name.c_str(), result.rate);
    for (const std::size_t e : epochs) table += text("  %8.4f", result.losses[e]);
    table +=
        text("  %7.2f  %11.1f  %6.1f\n", result.accuracy, result.optimizer_seconds, result.seconds);
  }
  return table;
}

}  // namespace fashion
