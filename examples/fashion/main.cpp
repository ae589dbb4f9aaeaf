// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <stdexcept>
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
        train(task, {method, options.preconditioning, best_rate(method), options.seed}, progress));
  std::printf("\n%s\n", results_table(outcomes).c_str());
  draw_losses(outcomes, options.output);
  std::printf("The loss curves are in %s.\n", std::filesystem::absolute(options.output).c_str());
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
