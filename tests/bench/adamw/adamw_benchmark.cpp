// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/bench/adamw/plain_adamw.h"
#include "tests/bench/bench_tensors.h"
#include "tests/bench/results.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/models.h"

namespace shampoo::test {
namespace {

struct Options {
  std::string model = "small";
  int threads = 1, steps = 60;
};

double milliseconds(const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  body();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Milliseconds of body() where none of its memory lies in a cache.
class ColdClock {
 public:
  double operator()(const std::function<void()>& body) {
    for (std::uint64_t& number : other_) number += 1;
    return milliseconds(body);
  }

 private:
  std::vector<std::uint64_t> other_ = std::vector<std::uint64_t>(std::size_t{1} << 24);
};

/// body(first, count) for equal parts, each on a thread of its own.
void in_parts(int threads, std::int64_t count,
              const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t part = (count + threads - 1) / threads;
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t)
    others.emplace_back([&, t] { body(t * part, std::min(part, count - t * part)); });
  body(0, std::min(part, count));
}

void measure(const Options& options) {
  const Model model = load_model(options.model);
  const auto backend = cpu_kernels({.threads = options.threads});
  const auto ranks = single_rank_communicator();
  BenchTensors tensors(*backend, model, Type::float32);
  Optimizer optimizer(*backend, *ranks,
                      tensors.groups(model, 1, named_recipe("adamw", model.block_size, 1)));

  const auto count = static_cast<std::size_t>(model.numel());
  std::vector<float> g(count, 0.01F), w(count, 0.1F), m(count), v(count);
  ColdClock cold;
  std::vector<double> ours, plain, ratios;
  for (int step = 1; step <= options.steps; ++step) {
    tensors.draw_gradients();
    ours.push_back(cold([&] { optimizer.step(); }));
    PlainAdamW adamw;
    adamw.first_correction = 1 / (1 - std::pow(adamw.beta1, static_cast<float>(step)));
    adamw.second_correction = 1 / (1 - std::pow(adamw.beta2, static_cast<float>(step)));
    plain.push_back(cold([&] {
      in_parts(options.threads, model.numel(), [&](std::int64_t first, std::int64_t n) {
        adamw.step(&g[first], n, &w[first], &m[first], &v[first]);
      });
    }));
    ratios.push_back(ours.back() / plain.back());
  }
  const auto per_parameter = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(count);
  };
  std::printf("adamw(): %.2f ms; plain fused loop: %.2f ms; ratio: %.2f\n", median(ours),
              median(plain), median(ratios));
  std::printf("fastest: %.2f, %.2f ms\n", *std::ranges::min_element(ours),
              *std::ranges::min_element(plain));
  std::printf("bytes per parameter: state %.2f, workspace and scratch %.2f\n",
              per_parameter(optimizer.state_bytes()),
              per_parameter(optimizer.workspace_bytes() + backend->memory_use().scratch));
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  shampoo::test::Options options;
  CLI::App app("Times AdamW against a plain fused loop, in turn, with cold caches.");
  app.add_option("--model", options.model, "name of a model, or a file that ends in .json");
  app.add_option("--threads", options.threads, "of both")->check(CLI::Range(1, 1024));
  app.add_option("--steps", options.steps, "timed steps")->check(CLI::Range(1, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  try {
    shampoo::test::measure(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "adamw_benchmark: %s\n", error.what());
    return 1;
  }
}
