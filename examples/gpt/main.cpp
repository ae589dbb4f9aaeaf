// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/gpt/chart.h"
#include "examples/gpt/options.h"
#include "examples/gpt/result.h"
#include "examples/gpt/text.h"
#include "examples/gpt/training.h"
#include "examples/output.h"
#include "examples/usage_error.h"
#include "shampoo/shampoo.h"

namespace gpt {

namespace {

std::unique_ptr<shampoo::Backend> backend_named(const std::string& name, int threads) {
  if (name == "cuda") return shampoo::cuda_backend({.device = shampoo::local_rank_of_launcher()});
  return shampoo::cpu_backend({.threads = threads});
}

/// Trains by one method at one rate with every seed. Only rank 0 prints.
std::vector<Outcome> train_with_seeds(shampoo::Backend& backend, shampoo::Communicator& ranks,
                                      const Text& text, const Options& options,
                                      const Attempt& first) {
  std::vector<Outcome> runs;
  for (int seed = options.seed; seed < options.seed + options.seeds; ++seed) {
    Attempt attempt = first;
    attempt.seed = static_cast<std::uint64_t>(seed);
    bool begins = true;
    const auto report = [&](const Reading& reading) {
      if (ranks.rank() != 0) return;
      if (std::exchange(begins, false) && reading.step > 0)
        std::printf("%s goes on after step %lld\n", attempt.method->name.c_str(),
                    static_cast<long long>(reading.step));
      std::printf("%-10s  rate %-7g  seed %d  step %5lld   validation loss %.4f   %7.1f s\n",
                  attempt.method->name.c_str(), peak_rate(*attempt.method, attempt.settings), seed,
                  static_cast<long long>(reading.step), reading.loss, reading.seconds);
      std::fflush(stdout);
    };
    runs.push_back(train(backend, ranks, text, options.task, attempt, report));
    if (ranks.rank() == 0 && options.describe) std::printf("\n%s\n", runs.back().plan.c_str());
  }
  return runs;
}

void write_results(const std::vector<Result>& results, const Options& options) {
  const double target = options.target.value_or(baseline(results));
  const std::string table = results_table(results, target);
  std::printf("\n%s\n", table.c_str());
  auto table_file = options.output;
  table_file.replace_extension(".txt");
  if (!(std::ofstream(table_file) << table << std::flush))
    throw std::runtime_error(table_file.string() + ": cannot be written");
  draw_losses(results, target, options.output);
  std::printf("Loss curves: %s\nThis table:  %s\n", options.output.c_str(), table_file.c_str());
}

void run(Options options) {
  const Text text = read_text(options.text);
  // Found now rather than after the training.
  const auto folder = std::filesystem::absolute(options.output).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw std::runtime_error("--output: there is no folder " + folder.string());
  options.task.threads = options.threads.value_or(shampoo::default_threads());
  const auto backend = backend_named(options.backend, options.task.threads);
  const auto ranks = shampoo::join(*backend);

  std::vector<Result> results;
  std::string samples;
  std::uint64_t checksum = 0;
  for (const std::string& key : options.methods) {
    const Method* const method = &gpt::method(key);
    const std::vector<double> rates =
        options.rates.empty() ? std::vector{method->rates.learning_rate} : options.rates;
    for (const double rate : rates) {
      Attempt attempt{.method = method, .settings = options.settings};
      attempt.settings.rate = rate;
      const auto runs = train_with_seeds(*backend, *ranks, text, options, attempt);
      results.emplace_back(runs);
      checksum = runs.back().checksum;
      if (rate == rates.back() && options.task.sample > 0)
        samples += "\n── " + method->name + " ──\n" + runs.back().sample + "\n";
    }
  }
  if (ranks->rank() != 0) return;
  std::printf("%s", samples.c_str());
  write_results(results, options);
  std::printf("checksum %016" PRIx64 "\n", checksum);
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  try {
    if (const auto options = gpt::read_options(argc, argv)) gpt::run(*options);
    examples::finish_output();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt: %s\n", error.what());
    shampoo::report_error(error.what());
    return examples::exit_status(error);
  }
}
