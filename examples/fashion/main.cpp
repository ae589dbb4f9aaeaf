// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/fashion/chart.h"
#include "examples/fashion/options.h"
#include "examples/fashion/sweep.h"
#include "examples/fashion/table.h"

namespace {

using namespace fashion;

void run(const Options& options) {
  // Found now rather than after the training.
  const auto folder = std::filesystem::absolute(options.output).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw std::runtime_error("--output: there is no folder " + folder.string());

  const Dataset dataset = read_dataset(options.data);
  const Normalisation normalisation(dataset.train);
  const Task task{dataset, normalisation, options.epochs, options.steps, options.threads};
  Progress progress(stdout);
  if (options.sweep) {
    sweep(task, {{}, options.preconditioning, 0, options.seed}, progress);
    return;
  }

  std::vector<Outcome> outcomes;
  for (const Method method : options.methods)
    outcomes.push_back(
        train(task, {method, options.preconditioning, best_rate, options.seed}, progress));
  const std::string table = results_table(outcomes);
  std::printf("\n%s\n", table.c_str());
  const auto chart_file = std::filesystem::absolute(options.output);
  auto table_file = chart_file;
  table_file.replace_extension(".txt");
  draw_losses(outcomes, chart_file);
  if (!(std::ofstream(table_file) << table << std::flush))
    throw std::runtime_error(table_file.string() + ": cannot be written");
  std::printf("Loss curves: %s\nThis table:  %s\n", chart_file.c_str(), table_file.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (const auto options = read_options(argc, argv)) run(*options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion: %s\n", error.what());
    return 1;
  }
}
