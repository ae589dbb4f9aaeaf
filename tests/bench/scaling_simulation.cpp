// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/scaling_model.h"
#include "tests/bench/scaling_rates.h"
#include "tests/bench/scaling_report.h"
#include "tests/bench/scaling_validation.h"

namespace shampoo::test {
namespace {

/// Larger roots would take minutes.
constexpr std::int64_t longest_timed_side = 2048;

struct Options {
  std::string model = "llama-1.3b";
  std::vector<int> ranks = {8, 16, 32, 64, 128, 256, 512, 1024};
  std::int64_t block = 0;
  std::int64_t frequency = 10;
  bool bfloat16 = false;
  int threads = 0;
  int workers = 0;
  KernelRates given{};  ///< 0: to be measured
  Link link{};
  bool json = false;
  bool validate = false;
};

Job job_of(const std::string& name, std::int64_t frequency) {
  Job job{.model = load_model(name), .recipe = {}};
  job.recipe.refresh = {.every = frequency, .first = frequency, .staggered = false};
  job.recipe.blocking.size = job.model.block_size;
  return job;
}

void take_rates(const Options& options, Report& report) {
  const KernelRates& given = options.given;
  const std::int64_t side = std::min(report.job.recipe.blocking.size, longest_timed_side);
  const bool all_given = given.gflops > 0 && given.gbytes > 0 && given.eigen_gflops > 0;
  report.rates_source = "given";
  if (!all_given) {
    report.rates = measure_rates(options.threads, side);
    const bool some_given = given.gflops > 0 || given.gbytes > 0 || given.eigen_gflops > 0;
    report.rates_source = std::string(some_given ? "where not given: " : "") +
                          "measured here and now with " + std::to_string(options.threads) +
                          " threads and sides of " + std::to_string(side);
  }
  if (given.gflops > 0) report.rates.gflops = given.gflops;
  if (given.gbytes > 0) report.rates.gbytes = given.gbytes;
  if (given.eigen_gflops > 0) report.rates.eigen_gflops = given.eigen_gflops;
  if (options.workers > 0) report.rates.workers = options.workers;
}

void simulate(Options options) {
  if (options.threads == 0)
    options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Report report{.model = options.model, .job = job_of(options.model, options.frequency)};
  if (options.block > 0) report.job.recipe.blocking.size = options.block;
  if (options.bfloat16) report.job.type = Type::bfloat16;
  report.link = options.link;

  take_rates(options, report);
  for (const int ranks : options.ranks)
    report.forecasts.push_back(forecast(report.job, ranks, report.rates, report.link));
  if (options.validate)
    for (const std::string name : {"small", "many"})
      report.validations.push_back(validate_prediction(name, job_of(name, 10), options.threads));
  std::fputs(options.json ? (json_of(report) + "\n").c_str() : text_of(report).c_str(), stdout);
}

void declare(CLI::App& app, Options& options) {
  app.add_option("--model", options.model, "name of a model, or a file that ends in .json")
      ->capture_default_str();
  app.add_option("--ranks", options.ranks, "numbers of ranks, with commas between them")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--block", options.block, "longest side of a block; 0: the model's")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--frequency", options.frequency, "steps from refresh to refresh")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--bfloat16", options.bfloat16, "values and gradients of 16 bits, not of 32");
  app.add_option("--threads", options.threads, "to measure rates with; 0: one for each processor")
      ->check(CLI::Range(0, 1024));
  app.add_option("--gflops", options.given.gflops, "of products in a rank; measured unless given")
      ->check(CLI::PositiveNumber);
  app.add_option("--gbytes", options.given.gbytes, "GB/s of a rank's memory; measured unless given")
      ->check(CLI::PositiveNumber);
  app.add_option("--eigen-gflops", options.given.eigen_gflops,
                 "7 n^3 over the time of a root, of all workers of a rank; measured unless given")
      ->check(CLI::PositiveNumber);
  app.add_option("--workers", options.workers,
                 "share a rank's blocks and rates; 0: as measured, 1 if all rates are given")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--latency-us", options.link.latency_us, "of a message")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--link-gbytes", options.link.gbytes, "GB/s that a rank receives")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--validate", options.validate, "predict and time `small` and `many` on one rank");
  app.add_flag("--json", options.json, "one JSON object on standard output");
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  shampoo::test::Options options;
  CLI::App app(
      "Plans a model for many ranks and predicts balance, bytes and step times from kernel rates "
      "and a model of the links.");
  shampoo::test::declare(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    shampoo::test::simulate(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scaling_simulation: %s\n", error.what());
    return 1;
  }
  return 0;
}
