// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "examples/fashion/chart.h"
#include "examples/fashion/group_rates.h"
#include "examples/fashion/options.h"
#include "examples/fashion/sweep.h"
#include "examples/fashion/table.h"
#include "examples/output.h"
#include "examples/usage_error.h"
#include "shampoo/distributor/rendezvous/join.h"
#include "shampoo/shampoo.h"

namespace {

using namespace fashion;

void write_results(const Comparison& comparison, const std::filesystem::path& output) {
  const std::string table = results_table(comparison.results);
  std::printf("\n%s\n", table.c_str());
  const auto chart_file = std::filesystem::absolute(output);
  auto table_file = chart_file;
  table_file.replace_extension(".txt");
  draw_losses(comparison.curves, chart_file);
  if (!(std::ofstream(table_file) << table << std::flush))
    throw std::runtime_error(table_file.string() + ": cannot be written");
  std::printf("Loss curves: %s\nThis table:  %s\n", chart_file.c_str(), table_file.c_str());
  if (const Outcome& first = comparison.curves.front(); first.schedule) {
    auto rates_file = chart_file;
    rates_file.replace_filename(chart_file.stem().string() + "-rates.png");
    first.schedule->plot(rates_file, first.attempt.rate,
                         static_cast<std::int64_t>(first.losses.size()));
    std::printf("Learning rates: %s\n", rates_file.c_str());
  }
}

void run(const Options& options, shampoo::Communicator& ranks) {
  const bool first = ranks.rank() == 0;
  // Found now rather than after the training.
  const auto folder = std::filesystem::absolute(options.output).parent_path();
  if (first && !std::filesystem::is_directory(folder))
    throw std::runtime_error("--output: there is no folder " + folder.string());

  const Dataset dataset = read_dataset(options.data);
  const Normalisation normalisation(dataset.train);
  const int threads = options.threads.value_or(shampoo::default_threads());
  const Task task{dataset,     normalisation,       options.epochs,  options.steps,
                  threads,     options.checkpoints, options.trace,   options.schedule,
                  options.ema, options.clip,        options.numerics};
  Progress progress(first ? stdout : nullptr);
  const Comparison comparison = compare(ranks, task, options, progress);
  if (!first) return;
  write_results(comparison, options.output);
  std::printf("checksum %016" PRIx64 "\n", comparison.checksum);
  for (const Outcome& each : comparison.curves)
    if (!each.unsaved.empty()) throw std::runtime_error(each.unsaved);
}

void show_group_rates(const Options& options) {
  const Dataset dataset = read_dataset(options.data);
  const Normalisation normalisation(dataset.train);
  const Method& chosen = method(options.methods.front());
  Progress progress(stdout);
  const auto runs = compare_group_rates(
      {dataset, normalisation, options.epochs, options.steps,
       options.threads.value_or(shampoo::default_threads())},
      {&chosen, options.preconditioning, options.rate.value_or(chosen.rate), options.seed},
      progress);
  std::printf("\n%s", group_rates_table(runs).c_str());
}

/// Trains as one of the ranks. The others hear of what fails here.
void run_as_rank(const Options& options) {
  const auto backend = shampoo::cpu_backend({.threads = 1});
  const auto ranks = shampoo::join(*backend);
  try {
    run(options, *ranks);
  } catch (const shampoo::CommunicationError&) {
    throw;  // names the rank
  } catch (const std::exception& error) {
    ranks->abort(error.what());
    if (ranks->size() == 1) throw;
    throw std::runtime_error("rank " + std::to_string(ranks->rank()) + " of " +
                             std::to_string(ranks->size()) + ": " + error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = read_options(argc, argv);
    if (!options) return 0;
    if (options->group_rates)
      show_group_rates(*options);
    else
      run_as_rank(*options);
    examples::finish_output();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion: %s\n", error.what());
    shampoo::report_error(error.what());
    return examples::exit_status(error);
  }
}
