// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/bench/bench_tensors.h"
#include "tests/bench/device_floor.h"
#include "tests/bench/phase_times.h"
#include "tests/bench/print_result.h"
#include "tests/bench/ranks.h"
#include "tests/bench/roofline.h"
#include "tests/support/counting_backend.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/models.h"

namespace shampoo::test {
namespace {

struct Options {
  std::string model = "small";
  int groups = 1;
  int frequency = 10;
  int threads = 0;
  int steps = 0;
  std::int64_t block = 0;
  int ranks = 1;
  std::string communicator = "threads";
  std::string backend = "cpu";
  std::string type = "float32";
  std::string recipe = "shampoo";
  std::string solver = "eigen";
  bool staggered = false;
  bool json = false;
  bool roofline = false;
  bool phases = false;
  DeviceRates rates = {};
};

NamedRecipe recipe_of(const Options& options) {
  NamedRecipe named = named_recipe(options.recipe, options.block, options.frequency);
  named.recipe.refresh.staggered = options.staggered;
  auto* const roots = std::get_if<RootInverse>(&named.recipe.preconditioner);
  if (roots && options.solver == "minimax") roots->solver = Minimax{};
  return named;
}

std::unique_ptr<kernels::Backend> backend_of(const Options& options) {
  if (options.backend == "cuda") return with_kernels(cuda_backend());
  return cpu_kernels({.threads = options.threads});
}

Type type_of(const Options& options) {
  return options.type == "bfloat16" ? Type::bfloat16 : Type::float32;
}

struct Times {
  std::vector<double> plain, refresh;  ///< ms
  std::int64_t launches = 0;           ///< most in a plain step
  std::vector<double> exchange;        ///< of plain steps, the wait for slower ranks included
  std::int64_t collectives = 0, bytes = 0;
};

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  return (numbers[numbers.size() / 2] + numbers[(numbers.size() - 1) / 2]) / 2;
}

bool is_plain(const Options& options, int step) {
  return options.staggered || step % options.frequency != 0;
}

Times time_steps(const Options& options, BenchTensors& tensors, Optimizer& optimizer,
                 CountingBackend& backend, const CountingCommunicator& ranks) {
  using Clock = std::chrono::steady_clock;
  Times times;
  for (int step = 1; step <= options.frequency + options.steps; ++step) {
    tensors.draw_gradients();
    const std::int64_t launches = backend.launches();
    const std::int64_t collectives = ranks.collectives(), bytes = ranks.gathered_bytes();
    const double exchange = ranks.seconds();
    const Clock::time_point begin = Clock::now();
    optimizer.step();
    backend.synchronize();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();

    if (step <= options.frequency) continue;
    const bool plain = is_plain(options, step);
    (plain ? times.plain : times.refresh).push_back(ms);
    times.collectives = std::max(times.collectives, ranks.collectives() - collectives);
    times.bytes = std::max(times.bytes, ranks.gathered_bytes() - bytes);
    if (plain) times.exchange.push_back(1e3 * (ranks.seconds() - exchange));
    if (plain) times.launches = std::max(times.launches, backend.launches() - launches);
  }
  return times;
}

/// Milliseconds of every phase of plain steps, medians.
nlohmann::ordered_json time_phases(const Options& options, const Model& model,
                                   kernels::Backend& backend, Communicator& ranks,
                                   BenchTensors& tensors) {
  PhaseTimes phases(backend);
  Optimizer optimizer(phases, ranks, tensors.groups(model, options.groups, recipe_of(options)));
  std::map<std::string, std::vector<double>> times;
  for (int step = 1; step <= options.frequency + options.steps; ++step) {
    tensors.draw_gradients();
    phases.take();
    optimizer.step();
    if (step <= options.frequency || !is_plain(options, step)) continue;
    for (const auto& [phase, ms] : phases.take()) times[phase].push_back(ms);
  }
  nlohmann::ordered_json result;
  for (const auto& [phase, all] : times) result[phase] = median(all);
  return result;
}

nlohmann::ordered_json floor_of(const Options& options, const Model& model) {
  const DeviceFloor floor = device_floor(model, options.block, type_of(options), options.rates);
  return {{"elementwise", floor.elementwise},
          {"factors", floor.factors},
          {"gram", floor.gram},
          {"precondition", floor.precondition},
          {"total", floor.total()}};
}

/// Bytes that a rank receives in a step, on average, without headers.
double received_payload(Communicator& ranks, const Times& times) {
  auto bytes = static_cast<double>(times.bytes);
  ranks.all_reduce(&bytes, 1, Type::float64);
  return bytes / ranks.size() - 64.0 * (ranks.size() - 1);
}

std::int64_t largest(Communicator& ranks, std::int64_t number) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(ranks.size()));
  all[ranks.rank()] = number;
  ranks.all_gather(all.data(), std::vector<std::int64_t>(all.size(), sizeof(number))).wait();
  return *std::max_element(all.begin(), all.end());
}

nlohmann::ordered_json summary(const Options& options, const Model& model, const Times& times,
                               const kernels::Backend& backend, Communicator& ranks,
                               std::int64_t state_bytes) {
  std::vector<double> all = times.plain;
  all.insert(all.end(), times.refresh.begin(), times.refresh.end());
  nlohmann::ordered_json result;
  result["model"] = options.model;
  result["backend"] = backend.description();
  result["type"] = options.type;
  result["recipe"] = options.recipe;
  result["solver"] = options.solver;
  result["tensors"] = model.tensors.size();
  result["parameters"] = model.numel();
  result["groups"] = options.groups;
  result["ranks"] = ranks.size();
  result["communicator"] = ranks.size() == 1 ? "one_rank" : options.communicator;
  result["threads"] = options.threads;
  result["frequency"] = options.frequency;
  result["staggered"] = options.staggered;
  result["block_size"] = options.block;
  result["plain_ms"] = median(times.plain);
  result["plain_ms_fastest"] =
      times.plain.empty() ? 0.0 : *std::min_element(times.plain.begin(), times.plain.end());
  result["refresh_ms"] = median(times.refresh);
  result["worst_over_median"] = *std::max_element(all.begin(), all.end()) / median(all);
  result["state_bytes_per_parameter"] =
      static_cast<double>(largest(ranks, state_bytes)) / static_cast<double>(model.numel());
  result["launches_per_step"] = times.launches;
  result["collectives_per_step"] = times.collectives;
  result["bytes_on_wire_per_step"] = received_payload(ranks, times);
  result["exchange_ms"] = median(times.exchange);
  return result;
}

void add_roofline(const Options& options, const Model& model, nlohmann::ordered_json& result) {
  const Machine machine = measure_machine(options.threads);
  const Work work = plain_step_work(model, options.block);
  const double seconds = result["plain_ms"].get<double>() / 1e3;
  result["machine_gflops"] = machine.flops_per_second / 1e9;
  result["machine_gbytes_per_second"] = machine.bytes_per_second / 1e9;
  result["plain_fraction_of_gemm_rate"] = work.flops / seconds / machine.flops_per_second;
  result["plain_fraction_of_bandwidth"] = work.bytes / seconds / machine.bytes_per_second;
}

nlohmann::ordered_json measure_steps(const Options& options, const Model& model,
                                     kernels::Backend& backend, Communicator& communicator,
                                     BenchTensors& tensors) {
  CountingBackend counted(backend);
  CountingCommunicator ranks(communicator);
  Optimizer optimizer(counted, ranks, tensors.groups(model, options.groups, recipe_of(options)));
  const Times times = time_steps(options, tensors, optimizer, counted, ranks);
  return summary(options, model, times, backend, communicator, optimizer.state_bytes());
}

void measure(Options options, Communicator& communicator) {
  const Model model = load_model(options.model);
  if (options.block == 0) options.block = model.block_size;
  if (options.threads == 0)
    options.threads =
        std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / communicator.size());
  if (options.steps == 0) options.steps = 3 * options.frequency;
  if (options.groups == 0) options.groups = static_cast<int>(model.tensors.size());
  if (options.groups > std::ssize(model.tensors))
    throw std::invalid_argument("--groups: there are only " + std::to_string(model.tensors.size()) +
                                " tensors");

  const auto backend = backend_of(options);
  BenchTensors tensors(*backend, model, type_of(options));
  nlohmann::ordered_json result = measure_steps(options, model, *backend, communicator, tensors);
  if (options.phases)
    result["phases_ms"] = time_phases(options, model, *backend, communicator, tensors);
  if (backend->memory_kind() == MemoryKind::cuda) result["floor_ms"] = floor_of(options, model);
  if (communicator.rank() > 0) return;
  if (options.roofline) add_roofline(options, model, result);
  print_result(result, options.json);
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  shampoo::test::Options options;
  CLI::App app("Times whole steps with fresh random gradients, after the first refresh.");
  app.add_option("--model", options.model, "name of a model, or a file that ends in .json");
  app.add_option("--groups", options.groups, "tensor i belongs to group i mod G; 0: one per tensor")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--backend", options.backend, "where the step runs")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--type", options.type, "of values and gradients")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--recipe", options.recipe, "a recipe; muon leaves out vectors and scalars")
      ->check(CLI::IsMember(shampoo::test::recipe_names()));
  app.add_option("--solver", options.solver, "of the roots")
      ->check(CLI::IsMember({"eigen", "minimax"}));
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
  app.add_option("--ranks", options.ranks, "processes or threads that share the work")
      ->check(CLI::Range(1, 1024));
  app.add_option("--communicator", options.communicator, "how ranks talk")
      ->check(CLI::IsMember({"threads", "mpi", "gloo"}));
  app.add_flag("--json", options.json, "one JSON object on standard output");
  app.add_flag("--roofline", options.roofline, "also what the machine can do at most");
  app.add_flag("--phases", options.phases, "also the times of the phases, from steps of their own");
  app.add_option("--terabytes", options.rates.terabytes_per_second,
                 "for the floor on CUDA: read and written by the device in a second")
      ->check(CLI::PositiveNumber);
  app.add_option("--tensor-teraflops", options.rates.tensor_teraflops,
                 "for the floor on CUDA: products of 16-bit numbers")
      ->check(CLI::PositiveNumber);
  app.add_option("--float32-teraflops", options.rates.float32_teraflops,
                 "for the floor on CUDA: products of float32 without tensor cores")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return shampoo::test::with_ranks(
        options.ranks, options.communicator, argv,
        [&](shampoo::Communicator& ranks) { shampoo::test::measure(options, ranks); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_benchmark: %s\n", error.what());
    return 1;
  }
}
