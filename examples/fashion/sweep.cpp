// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/sweep.h"

#include <cstdio>
#include <vector>

namespace fashion {

namespace {

constexpr int seeds = 3;

/// Mean over the seeds.
struct Row {
  std::vector<double> losses;  ///< of each epoch
  double accuracy = 0;
  double optimizer_seconds = 0;
};

void add(Row& row, const Outcome& outcome) {
  row.losses.resize(outcome.epochs.size());
  for (std::size_t e = 0; e < outcome.epochs.size(); ++e)
    row.losses[e] += outcome.epochs[e].loss / seeds;
  row.accuracy += outcome.epochs.back().accuracy / seeds;
  row.optimizer_seconds += outcome.optimizer_seconds / seeds;
}

void print(Method method, double rate, const Row& row) {
  std::printf("%-10s %5.0e ", name(method), rate);
  for (const double loss : row.losses) std::printf("  %.4f", loss);
  std::printf("  %7.2f  %11.1f\n", row.accuracy, row.optimizer_seconds);
}

}  // namespace

std::uint64_t sweep(shampoo::Communicator& ranks, const Task& task, const Attempt& first,
                    Progress& progress) {
  std::uint64_t checksum = 0;
  std::vector<std::pair<Attempt, Row>> rows;
  for (const Method method : {Method::shampoo, Method::adamw})
    for (const double rate : {1e-3, 3e-3}) {
      Attempt attempt = first;
      attempt.method = method;
      attempt.rate = rate;
      Row row;
      for (int s = 0; s < seeds; ++s) {
        attempt.seed = first.seed + s;
        char title[80];
        std::snprintf(title, sizeof title, "%s, rate %.0e, seed %llu", name(method), rate,
                      static_cast<unsigned long long>(attempt.seed));
        progress.note(title);
        const Outcome outcome = train(ranks, task, attempt, progress);
        add(row, outcome);
        checksum = outcome.checksum;
      }
      rows.emplace_back(attempt, row);
    }
  if (ranks.rank() != 0) return checksum;
  std::printf("\nMeans of %d seeds\n%-10s %5s   %-*s  test %%  optimizer s\n", seeds, "optimizer",
              "rate", static_cast<int>(8 * rows.front().second.losses.size() - 2),
              "training loss by epoch");
  for (const auto& [attempt, row] : rows) print(attempt.method, attempt.rate, row);
  return checksum;
}

}  // namespace fashion
