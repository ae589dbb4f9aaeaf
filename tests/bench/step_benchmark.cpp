// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "examples/output.h"
#include "shampoo/shampoo.h"
#include "tests/bench/bench_tensors.h"
#include "tests/bench/phase_times.h"
#include "tests/bench/prediction/prediction_report.h"
#include "tests/bench/ranks.h"
#include "tests/bench/results.h"
#include "tests/bench/roofline.h"
#include "tests/bench/step_options.h"
#include "tests/support/counting_backend.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/models.h"

namespace shampoo::test {
namespace {

std::unique_ptr<kernels::Backend> backend_of(const StepOptions& options) {
  if (options.backend == "cuda") return with_kernels(cuda_backend());
  return cpu_kernels({.threads = options.threads});
}

struct Times {
  std::vector<double> plain, refresh;  ///< ms
  std::int64_t launches = 0;           ///< most in a plain step
  std::vector<double> exchange;        ///< of plain steps, the wait for slower ranks included
  std::int64_t collectives = 0, bytes = 0;
  std::vector<double> flops, bandwidth;  ///< of the machine between plain steps, per second
};

bool is_plain(const StepOptions& options, int step) {
  return options.staggered || step % options.frequency != 0;
}

Times time_steps(const StepOptions& options, BenchTensors& tensors, Optimizer& optimizer,
                 CountingBackend& backend, const CountingCommunicator& ranks) {
  using Clock = std::chrono::steady_clock;
  std::optional<MachineMeter> machine;
  if (options.roofline) machine.emplace(options.threads);
  Times times;
  for (int step = 1; step <= options.frequency + options.steps; ++step) {
    const bool plain = is_plain(options, step);
    if (machine && plain && step > options.frequency) {
      times.flops.push_back(machine->flops_per_second());
      times.bandwidth.push_back(machine->bytes_per_second());
    }
    tensors.draw_gradients();
    const std::int64_t launches = backend.launches();
    const std::int64_t collectives = ranks.collectives(), bytes = ranks.gathered_bytes();
    const double exchange = ranks.seconds();
    const Clock::time_point begin = Clock::now();
    optimizer.step();
    backend.synchronize();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();

    if (step <= options.frequency) continue;
    (plain ? times.plain : times.refresh).push_back(ms);
    times.collectives = std::max(times.collectives, ranks.collectives() - collectives);
    times.bytes = std::max(times.bytes, ranks.gathered_bytes() - bytes);
    if (plain) times.exchange.push_back(1e3 * (ranks.seconds() - exchange));
    if (plain) times.launches = std::max(times.launches, backend.launches() - launches);
  }
  return times;
}

/// Milliseconds of every phase of plain steps, medians.
nlohmann::ordered_json time_phases(const StepOptions& options, const Model& model,
                                   kernels::Backend& backend, Communicator& ranks,
                                   BenchTensors& tensors) {
  PhaseTimes phases(backend);
  Optimizer optimizer(phases, ranks, tensors.groups(model, options.groups, recipe_of(options)),
                      optimizer_options(options));
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

nlohmann::ordered_json floor_of(const StepOptions& options, const Model& model,
                                const DeviceRates& rates) {
  const DeviceFloor floor = device_floor(model, options.block, type_of(options), rates);
  return {{"elementwise", floor.elementwise},
          {"factors", floor.factors},
          {"gram", floor.gram},
          {"precondition", floor.precondition},
          {"total", floor.total()}};
}

/// Bytes that a rank receives in a step, on average, with padding, without headers.
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

nlohmann::ordered_json summary(const StepOptions& options, const Model& model, const Times& times,
                               const kernels::Backend& backend, Communicator& ranks,
                               const Optimizer& optimizer) {
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
  const auto per_parameter = [&](std::int64_t bytes) {
    return static_cast<double>(largest(ranks, bytes)) / static_cast<double>(model.numel());
  };
  result["state_bytes_per_parameter"] = per_parameter(optimizer.state_bytes());
  result["workspace_bytes_per_parameter"] = per_parameter(optimizer.workspace_bytes());
  result["scratch_bytes_per_parameter"] = per_parameter(backend.memory_use().scratch);
  result["launches_per_step"] = times.launches;
  result["collectives_per_step"] = times.collectives;
  result["bytes_on_wire_per_step"] = received_payload(ranks, times);
  result["exchange_ms"] = median(times.exchange);
  return result;
}

void add_roofline(const StepOptions& options, const Model& model, const Times& times,
                  nlohmann::ordered_json& result) {
  const double flops = median(times.flops), bandwidth = median(times.bandwidth);
  const Work work = plain_step_work(model, options.block);
  const double seconds = result["plain_ms"].get<double>() / 1e3;
  result["machine_gflops"] = flops / 1e9;
  result["machine_gbytes_per_second"] = bandwidth / 1e9;
  result["plain_fraction_of_gemm_rate"] = work.flops / seconds / flops;
  result["plain_fraction_of_bandwidth"] = work.bytes / seconds / bandwidth;
}

nlohmann::ordered_json measure_steps(const StepOptions& options, const Model& model,
                                     kernels::Backend& backend, Communicator& communicator,
                                     BenchTensors& tensors) {
  CountingBackend counted(backend);
  CountingCommunicator ranks(communicator);
  Optimizer optimizer(counted, ranks, tensors.groups(model, options.groups, recipe_of(options)),
                      optimizer_options(options));
  const Times times = time_steps(options, tensors, optimizer, counted, ranks);
  nlohmann::ordered_json result = summary(options, model, times, backend, communicator, optimizer);
  if (options.roofline) add_roofline(options, model, times, result);
  return result;
}

nlohmann::ordered_json predicted(const StepOptions& options, const Model& model,
                                 const DeviceModel& machine) {
  return prediction_of({.machine = machine,
                        .model = model,
                        .recipe = recipe_of(options),
                        .type = type_of(options),
                        .block = options.block,
                        .frequency = options.frequency,
                        .options = optimizer_options(options)});
}

void predict(StepOptions options) {
  const Model model = load_model(options.model);
  if (options.block == 0) options.block = model.block_size;
  print_prediction(predicted(options, model, device_model(options.predict)), options.json);
}

void measure(StepOptions options, Communicator& communicator) {
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

  if (options.roofline && (communicator.size() > 1 || options.staggered || options.frequency == 1))
    throw std::invalid_argument("--roofline: needs one rank, and plain steps of their own");

  const auto backend = backend_of(options);
  // One rank's must work in the backend's memory.
  const auto alone = single_rank_communicator(backend->memory_kind());
  Communicator& ranks = communicator.size() == 1 ? *alone : communicator;
  BenchTensors tensors(*backend, model, type_of(options));
  nlohmann::ordered_json result = measure_steps(options, model, *backend, ranks, tensors);
  if (options.phases) result["phases_ms"] = time_phases(options, model, *backend, ranks, tensors);
  const DeviceModel* const machine = device_model_of(backend->description());
  if (machine != nullptr) result["floor_ms"] = floor_of(options, model, machine->rates);
  if (communicator.rank() > 0) return;
  if (machine != nullptr && options.phases && !is_plain(options, options.frequency))
    result["predicted_ms"] = predicted(options, model, *machine)["plain"]["phases_ms"];
  print_result(result, options.json);
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  shampoo::test::StepOptions options;
  CLI::App app("Times whole steps with fresh random gradients, after the first refresh.");
  shampoo::test::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    if (!options.predict.empty()) {
      shampoo::test::predict(options);
      examples::finish_output();
      return 0;
    }
    const int status = shampoo::test::with_ranks(
        options.ranks, options.communicator, argv,
        [&](shampoo::Communicator& ranks) { shampoo::test::measure(options, ranks); });
    examples::finish_output();
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_benchmark: %s\n", error.what());
    return 1;
  }
}
