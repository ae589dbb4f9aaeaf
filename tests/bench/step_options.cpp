// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/step_options.h"

#include "tests/bench/prediction/device_model.h"

namespace shampoo::test {

NamedRecipe recipe_of(const StepOptions& options) {
  NamedRecipe named = named_recipe(options.recipe, options.block, options.frequency);
  named.recipe.refresh.staggered = options.staggered;
  auto* const roots = std::get_if<RootInverse>(&named.recipe.preconditioner);
  if (roots && options.solver == "eigen") roots->solver = Eigen{};
  if (roots && options.solver == "minimax") roots->solver = Minimax{};
  if (roots && options.solver == "tridiagonal") roots->solver = Tridiagonal{};
  return named;
}

OptimizerOptions optimizer_options(const StepOptions& options) {
  OptimizerOptions made;
  made.direction_bytes = options.direction_bytes;
  return made;
}

Type type_of(const StepOptions& options) {
  return options.type == "bfloat16" ? Type::bfloat16 : Type::float32;
}

void add_options(CLI::App& app, StepOptions& options) {
  app.add_option("--model", options.model, "name of a model, or a file that ends in .json");
  app.add_option("--groups", options.groups, "tensor i belongs to group i mod G; 0: one per tensor")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--backend", options.backend, "where the step runs")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--type", options.type, "of values and gradients")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--recipe", options.recipe, "a recipe; muon leaves out vectors and scalars")
      ->check(CLI::IsMember(recipe_names()));
  app.add_option("--solver", options.solver, "of the roots")
      ->check(CLI::IsMember({"automatic", "eigen", "minimax", "tridiagonal"}));
  app.add_option("--frequency", options.frequency, "steps from refresh to refresh")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag(
      "--staggered", options.staggered,
      "spreads refreshes, so that all steps are alike; otherwise plain and refreshing steps "
      "are timed apart");
  app.add_option("--threads", options.threads, "of each rank; 0: processors / ranks")
      ->check(CLI::Range(0, 1024));
  app.add_option("--steps", options.steps, "timed steps; 0: three times the frequency")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--block", options.block, "longest side of a block; 0: the model's")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--direction-bytes", options.direction_bytes,
                 "of directions in memory at a time; a share of the state unless it is set")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--ranks", options.ranks, "processes or threads that share the work")
      ->check(CLI::Range(1, 1024));
  app.add_option("--communicator", options.communicator, "how ranks talk")
      ->check(CLI::IsMember({"threads", "mpi", "gloo"}));
  app.add_flag("--json", options.json, "one JSON object on standard output");
  app.add_flag("--roofline", options.roofline, "also what the machine does between plain steps");
  app.add_flag("--phases", options.phases, "also the times of the phases, from steps of their own");
  app.add_option("--predict", options.predict,
                 "prints what a model of the kernels says of a step of one rank and one group on a "
                 "device, which need not be there; measures nothing")
      ->check(CLI::IsMember(device_model_names()));
}

}  // namespace shampoo::test
