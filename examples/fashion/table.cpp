// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/table.h"

#include <algorithm>
#include <cstdio>

namespace fashion {

namespace {

constexpr std::size_t label_width = 20, cell_width = 12;

std::string cell(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string padded(std::string text, std::size_t columns) {
  return text.insert(0, columns - std::min(columns, text.size()), ' ');
}

std::string label(std::string text) {
  text.resize(label_width, ' ');
  return text;
}

std::string rule(std::size_t runs) {
  std::string line;
  for (std::size_t i = 0; i < label_width + 2 * cell_width * runs; ++i) line += "─";
  return line + "\n";
}

}  // namespace

std::string results_table(std::span<const Outcome> outcomes) {
  std::string names = label(""), heads = label("epoch");
  std::size_t epochs = 0;
  for (const Outcome& outcome : outcomes) {
    names += padded(name(outcome.attempt.method), 2 * cell_width);
    heads += padded("loss", cell_width) + padded("test %", cell_width);
    epochs = std::max(epochs, outcome.epochs.size());
  }
  std::string table = names + "\n" + heads + "\n" + rule(outcomes.size());
  for (std::size_t e = 0; e < epochs; ++e) {
    table += label(std::to_string(e + 1));
    for (const Outcome& outcome : outcomes)
      table += padded(cell("%.4f", outcome.epochs[e].loss), cell_width) +
               padded(cell("%.2f", outcome.epochs[e].accuracy), cell_width);
    table += "\n";
  }
  table += rule(outcomes.size());
  std::string optimizer = label("optimizer, seconds"), all = label("in all, seconds");
  for (const Outcome& outcome : outcomes) {
    optimizer += padded(cell("%.1f", outcome.optimizer_seconds), 2 * cell_width);
    all += padded(cell("%.1f", outcome.seconds), 2 * cell_width);
  }
  return table + optimizer + "\n" + all + "\n";
}

}  // namespace fashion
