// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/bench/ranks.h"
#include "tests/bench/roofline.h"
#include "tests/support/counting_backend.h"
#include "tests/support/counting_communicator.h"
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
  bool json = false;
  bool roofline = false;
};

/// Numbers that look normal, cheap enough for every gradient of every step.
class Noise {
 public:
  void fill(std::vector<float>& numbers, float deviation) {
    for (float& number : numbers) {
      // The sum of four uniform numbers; splitmix64 gives all four at once.
      std::uint64_t bits = state_ += 0x9e3779b97f4a7c15;
      bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
      bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
      bits ^= bits >> 31;
      const auto sum =
          (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
      // Mean 2 * 65535, deviation 65536 / sqrt(3).
      number = deviation * (static_cast<float>(sum) - 131070.0f) * (1.7320508f / 65536.0f);
    }
  }

 private:
  std::uint64_t state_ = 1;
};

/// The tensors of a model; tensor i belongs to group i mod G.
class Tensors {
 public:
  explicit Tensors(const Model& model) {
    for (const Model::Tensor& tensor : model.tensors) {
      const auto elements = static_cast<std::size_t>(grouping::numel(tensor.shape));
      values_.emplace_back(elements);
      gradients_.emplace_back(elements);
      noise_.fill(values_.back(), 0.02f);
    }
  }

  std::vector<ParameterGroup> groups(const Model& model, const Options& options) {
    Recipe recipe{.preconditioner = RootInverse{.solver = Eigen{}}, .grafting = Adam{}};
    recipe.refresh = {.every = options.frequency, .first = options.frequency};
    recipe.blocking = {.size = options.block, .target_order = 1};
    std::vector<ParameterGroup> groups(static_cast<std::size_t>(options.groups));
    for (int g = 0; g < options.groups; ++g) {
      groups[g].rates = {.learning_rate = 1e-3 * (1 + static_cast<double>(g) / options.groups),
                         .weight_decay = 0.1};
      groups[g].recipe = recipe;
    }
    for (std::size_t i = 0; i < model.tensors.size(); ++i)
      groups[i % groups.size()].parameters.push_back({.name = model.tensors[i].name,
                                                      .shape = model.tensors[i].shape,
                                                      .value = values_[i].data(),
                                                      .gradient = gradients_[i].data()});
    return groups;
  }

  void draw_gradients() {
    for (std::vector<float>& gradient : gradients_) noise_.fill(gradient, 1.0f);
  }

 private:
  Noise noise_;
  std::vector<std::vector<float>> values_, gradients_;
};

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

Times time_steps(const Options& options, Tensors& tensors, Optimizer& optimizer,
                 const CountingBackend& backend, const CountingCommunicator& ranks) {
  using Clock = std::chrono::steady_clock;
  Times times;
  for (int step = 1; step <= options.frequency + options.steps; ++step) {
    tensors.draw_gradients();
    const std::int64_t launches = backend.launches();
    const std::int64_t collectives = ranks.collectives(), bytes = ranks.gathered_bytes();
    const double exchange = ranks.seconds();
    const Clock::time_point begin = Clock::now();
    optimizer.step();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();

    if (step <= options.frequency) continue;
    const bool plain = step % options.frequency != 0;
    (plain ? times.plain : times.refresh).push_back(ms);
    times.collectives = std::max(times.collectives, ranks.collectives() - collectives);
    times.bytes = std::max(times.bytes, ranks.gathered_bytes() - bytes);
    if (plain) times.exchange.push_back(1e3 * (ranks.seconds() - exchange));
    if (plain) times.launches = std::max(times.launches, backend.launches() - launches);
  }
  return times;
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
                               const Backend& backend, Communicator& ranks,
                               std::int64_t state_bytes) {
  std::vector<double> all = times.plain;
  all.insert(all.end(), times.refresh.begin(), times.refresh.end());
  nlohmann::ordered_json result;
  result["model"] = options.model;
  result["backend"] = backend.description();
  result["tensors"] = model.tensors.size();
  result["parameters"] = model.numel();
  result["groups"] = options.groups;
  result["ranks"] = ranks.size();
  result["communicator"] = ranks.size() == 1 ? "one_rank" : options.communicator;
  result["threads"] = options.threads;
  result["frequency"] = options.frequency;
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

void measure(Options options, Communicator& communicator) {
  const Model model = load_model(options.model);
  if (options.block == 0) options.block = model.block_size;
  if (options.threads == 0)
    options.threads =
        std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / communicator.size());
  if (options.steps == 0) options.steps = 3 * options.frequency;
  if (options.groups > std::ssize(model.tensors))
    throw std::invalid_argument("--groups: there are only " + std::to_string(model.tensors.size()) +
                                " tensors");

  Tensors tensors(model);
  const auto cpu = cpu_backend({.threads = options.threads});
  CountingBackend backend(*cpu);
  CountingCommunicator ranks(communicator);
  Optimizer optimizer(backend, ranks, tensors.groups(model, options));
  const Times times = time_steps(options, tensors, optimizer, backend, ranks);

  nlohmann::ordered_json result =
      summary(options, model, times, *cpu, communicator, optimizer.state_bytes());
  if (communicator.rank() > 0) return;
  if (options.roofline) add_roofline(options, model, result);
  if (options.json) {
    std::printf("%s\n", result.dump().c_str());
    return;
  }
  for (const auto& [key, value] : result.items())
    std::printf("%-28s %s\n", key.c_str(), value.dump().c_str());
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  shampoo::test::Options options;
  CLI::App app("Times whole steps with fresh random gradients, after the first refresh.");
  app.add_option("--model", options.model, "name of a model, or a file that ends in .json");
  app.add_option("--groups", options.groups, "tensor i belongs to group i mod G")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--frequency", options.frequency, "steps from refresh to refresh")
      ->check(CLI::Range(1, 1'000'000));
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
