// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "shampoo/distributor/rendezvous/join.h"
#include "shampoo/shampoo.h"
#include "tests/bench/bench_tensors.h"
#include "tests/bench/results.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/models.h"
#include "tests/support/named_recipes.h"

namespace shampoo::test {
namespace {

struct Options {
  std::string model = "many";
  int threads = 0, steps = 200;
};

/// An optimizer of a model, one group per tensor, whose steps are plain ones.
class Run {
 public:
  static constexpr int first_refresh = 5;

  Run(std::string name, GradientOptions gradients, kernels::Backend& backend, Communicator& ranks,
      const Model& model)
      : name_(std::move(name)),
        tensors_(backend, model, Type::float32),
        optimizer_(backend, ranks, groups(model), {.gradients = std::move(gradients)}) {}

  /// Returns milliseconds.
  double step() {
    using Clock = std::chrono::steady_clock;
    tensors_.draw_gradients();
    const Clock::time_point begin = Clock::now();
    optimizer_.step();
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

  void time_step() { times_.push_back(step()); }
  const std::string& name() const { return name_; }
  double milliseconds() const { return median(times_); }

 private:
  std::vector<ParameterGroup> groups(const Model& model) const {
    NamedRecipe recipe = named_recipe("shampoo", model.block_size, 10);
    recipe.recipe.refresh = {.every = 1'000'000, .first = first_refresh, .staggered = false};
    return tensors_.groups(model, static_cast<int>(model.tensors.size()), recipe);
  }

  std::string name_;
  BenchTensors tensors_;
  Optimizer optimizer_;
  std::vector<double> times_;
};

void measure(const Options& options) {
  const Model model = load_model(options.model);
  const auto backend = cpu_kernels({.threads = options.threads});
  const auto ranks = join(*backend);
  std::vector<std::unique_ptr<Run>> runs;
  const auto add = [&](const char* name, GradientOptions gradients) {
    runs.push_back(std::make_unique<Run>(name, std::move(gradients), *backend, *ranks, model));
  };
  add("none", {});
  add("none, again", {});
  add("clipped by global norm", {.clipping = ClipGlobalNorm{0.01}});
  add("dynamic loss scale", {.loss_scaling = DynamicLossScale{}});
  add("both", {.loss_scaling = DynamicLossScale{}, .clipping = ClipGlobalNorm{0.01}});

  for (const auto& run : runs)
    for (int step = 0; step <= Run::first_refresh; ++step) run->step();
  for (int step = 0; step < options.steps; ++step)
    for (std::size_t i = 0; i < runs.size(); ++i)
      runs[(i + static_cast<std::size_t>(step)) % runs.size()]->time_step();
  const double none = (runs[0]->milliseconds() + runs[1]->milliseconds()) / 2;
  std::printf("%s, %zu groups, %s\n", options.model.c_str(), model.tensors.size(),
              backend->description().c_str());
  for (const auto& run : runs)
    std::printf("%-24s %8.3f ms %8.3f\n", run->name().c_str(), run->milliseconds(),
                run->milliseconds() / none);
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  shampoo::test::Options options;
  CLI::App app(
      "Times plain steps of one optimizer per option of the gradients, in turn, and their medians "
      "in parts of that without options.");
  app.add_option("--model", options.model, "name of a model, or a file that ends in .json");
  app.add_option("--threads", options.threads, "0: one per processor")->check(CLI::Range(0, 1024));
  app.add_option("--steps", options.steps, "timed ones of each")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    shampoo::test::measure(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gradient_options_benchmark: %s\n", error.what());
    return 1;
  }
}
