// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/group_rates.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "examples/fashion/agreement.h"
#include "examples/fashion/replica.h"
#include "examples/fashion/stopwatch.h"
#include "tests/support/counting_backend.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/cpu_kernels.h"

namespace fashion {

namespace {

constexpr std::size_t window = 100;  // steps

const char* name_of(Grouping grouping) {
  if (grouping == Grouping::merged) return "merged";
  return grouping == Grouping::unmerged ? "unmerged" : "an optimizer each";
}

std::vector<shampoo::ParameterGroup> group_of_each(const Attempt& attempt, const Replica& replica) {
  std::vector<shampoo::ParameterGroup> each;
  for (const auto& group :
       parameter_groups(*attempt.method, attempt.preconditioning, replica.parameters()))
    for (const shampoo::Parameter& parameter : group.parameters) {
      each.push_back(group);
      each.back().parameters = {parameter};
    }
  for (std::size_t g = 0; g < each.size(); ++g)
    each[g].rates.learning_rate *=
        attempt.rate * static_cast<double>(g + 1) / static_cast<double>(each.size());
  return each;
}

double mean_of(std::span<const double> numbers) {
  return std::reduce(numbers.begin(), numbers.end()) / static_cast<double>(numbers.size());
}

GroupRatesRun train_grouped(shampoo::Communicator& ranks, const Task& task, const Attempt& attempt,
                            Grouping grouping) {
  const auto kernels = shampoo::test::cpu_kernels({.threads = task.threads});
  shampoo::test::CountingBackend backend(*kernels);
  shampoo::test::CountingCommunicator exchange(ranks);
  Replica replica(ranks, task.dataset, task.normalisation, task.threads, attempt.seed);
  auto groups = group_of_each(attempt, replica);
  std::vector<shampoo::Optimizer> optimizers;
  if (grouping == Grouping::apart)
    for (const shampoo::ParameterGroup& group : groups)
      optimizers.emplace_back(backend, exchange, std::vector{group});
  else
    optimizers.emplace_back(
        backend, exchange, std::move(groups),
        shampoo::OptimizerOptions{.merge_groups = grouping == Grouping::merged});

  const int planned = task.epochs * replica.steps_per_epoch();
  const int steps = std::min(planned, task.steps.value_or(planned));
  const std::int64_t launches = backend.launches(), collectives = exchange.collectives(),
                     bytes = exchange.gathered_bytes();
  std::vector<double> losses, seconds;
  for (int step = 0; step < steps; ++step) {
    losses.push_back(replica.find_gradient());
    const Stopwatch watch;
    for (shampoo::Optimizer& optimizer : optimizers) optimizer.step();
    seconds.push_back(watch.seconds());
  }
  const auto of_a_step = [&](std::int64_t count) { return static_cast<double>(count) / steps; };
  GroupRatesRun run{.grouping = grouping,
                    .ranks = ranks.size(),
                    .optimizers = static_cast<int>(optimizers.size()),
                    .launches = of_a_step(backend.launches() - launches),
                    .collectives = of_a_step(exchange.collectives() - collectives),
                    .bytes = of_a_step(exchange.gathered_bytes() - bytes),
                    .milliseconds = 1e3 * mean_of(seconds),
                    .window_loss = 0,
                    .lifetime_loss = 0,
                    .checksum = agreed_checksum(ranks, replica.network())};
  ranks.all_reduce(&run.bytes, 1, shampoo::Type::float64);
  ranks.all_reduce(losses.data(), std::ssize(losses), shampoo::Type::float64);
  for (double& loss : losses) loss /= batch_size;
  run.lifetime_loss = mean_of(losses);
  run.window_loss = mean_of(std::span<const double>(losses).last(std::min(window, losses.size())));
  return run;
}

void require_equal(const GroupRatesRun& run, const GroupRatesRun& merged) {
  if (run.window_loss == merged.window_loss && run.lifetime_loss == merged.lifetime_loss &&
      run.checksum == merged.checksum)
    return;
  throw std::runtime_error(std::string(name_of(run.grouping)) + ", " + std::to_string(run.ranks) +
                           " ranks: another result than that of merged groups");
}

}  // namespace

std::vector<GroupRatesRun> compare_group_rates(const Task& task, Attempt attempt,
                                               Progress& progress) {
  attempt.preconditioning.at_once = true;
  std::vector<GroupRatesRun> runs;
  for (const int count : {1, 2}) {
    Task of_rank = task;
    of_rank.threads = std::max(1, task.threads / count);
    for (const Grouping grouping : {Grouping::merged, Grouping::unmerged, Grouping::apart}) {
      progress.note(std::to_string(count) + (count > 1 ? " ranks, " : " rank, ") +
                    name_of(grouping));
      runs.emplace_back();
      shampoo::run_ranks(count, [&](shampoo::Communicator& ranks) {
        const GroupRatesRun own = train_grouped(ranks, of_rank, attempt, grouping);
        if (ranks.rank() == 0) runs.back() = own;
      });
      require_equal(runs.back(), runs[runs.size() - 1 - static_cast<std::size_t>(grouping)]);
    }
  }
  return runs;
}

std::string group_rates_table(std::span<const GroupRatesRun> runs) {
  std::string table =
      "ranks  groups             optimizers  launches  collectives    bytes     ms"
      "  window loss         lifetime loss\n";
  for (const GroupRatesRun& run : runs) {
    char line[160];
    std::snprintf(line, sizeof line,
                  "%5d  %-17s  %10d  %8.1f  %11.1f  %7.0f  %5.2f  %-18.16f  %.16f\n", run.ranks,
                  name_of(run.grouping), run.optimizers, run.launches, run.collectives, run.bytes,
                  run.milliseconds, run.window_loss, run.lifetime_loss);
    table += line;
  }
  return table;
}

}  // namespace fashion
