// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "grouping/blocks.h"
#include "grouping/placement.h"
#include "grouping/plan.h"
#include "shampoo/update/block_work.h"
#include "tests/bench/bench_tensors.h"
#include "tests/bench/results.h"
#include "tests/support/cpu_kernels.h"

namespace {

using shampoo::grouping::Shape;
using shampoo::grouping::Work;

Work work_of(const Shape& extent) {
  const std::int64_t elements = extent[0] * extent[1];
  Work work{30 * elements, 4 * elements, 8 * elements};
  for (std::int64_t d : extent) {
    work.cost += 5 * d * d * d / 2 + 3 * elements * d;
    work.state += 4 * d * (d + 1);
  }
  return work;
}

/// Matrices whose sides are random multiples of 1024 / sides, up to 1024.
std::vector<Shape> extents(int blocks, int sides) {
  std::mt19937 random(1);
  std::vector<Shape> made;
  for (int b = 0; b < blocks; ++b) {
    const auto side = [&] {
      return static_cast<std::int64_t>(1 + random() % sides) * 1024 / sides;
    };
    made.push_back({side(), side()});
  }
  return made;
}

/// Arguments: blocks, ranks, different lengths of a side.
void place_blocks(benchmark::State& state) {
  std::vector<Work> works;
  for (const Shape& extent :
       extents(static_cast<int>(state.range(0)), static_cast<int>(state.range(2))))
    works.push_back(work_of(extent));
  for (auto _ : state)
    benchmark::DoNotOptimize(shampoo::grouping::place(works, static_cast<int>(state.range(1))));
}
BENCHMARK(place_blocks)
    ->ArgNames({"blocks", "ranks", "sides"})
    ->Args({1000, 8, 4})
    ->Args({100000, 1024, 4})
    ->Args({100000, 1024, 1024})
    ->Unit(benchmark::kMillisecond);

/// A whole plan, from one group with a parameter for every block.
void plan_blocks(benchmark::State& state) {
  namespace grouping = shampoo::grouping;
  grouping::PlannedGroup group{"root inverse", {}};
  for (const Shape& extent :
       extents(static_cast<int>(state.range(0)), static_cast<int>(state.range(2))))
    group.parameters.push_back({"p" + std::to_string(group.parameters.size()),
                                extent,
                                4,
                                {{{{0, 0}, extent}, work_of(extent)}}});
  for (auto _ : state)
    benchmark::DoNotOptimize(grouping::plan({group}, static_cast<int>(state.range(1))));
}
BENCHMARK(plan_blocks)
    ->ArgNames({"blocks", "ranks", "sides"})
    ->Args({1000, 8, 4})
    ->Args({100000, 1024, 4})
    ->Args({100000, 1024, 1024})
    ->Unit(benchmark::kMillisecond);

/// Equal tensors of one shape, enough of them that a step takes longer than its launches.
struct Tensors {
  Shape shape;
  int count;
};

const std::vector<Tensors>& tensors() {
  static const std::vector<Tensors> all{{{64, 64}, 128},  {{256, 256}, 16}, {{1024, 256}, 4},
                                        {{4096, 256}, 1}, {{256, 1}, 256},  {{1024}, 32}};
  return all;
}

/// Tensors that are cut have blocks of this, and are refreshed so often.
constexpr std::int64_t block_size = 1024, refresh_interval = 10;

std::int64_t cost_of(const shampoo::Recipe& recipe, const Shape& shape) {
  namespace grouping = shampoo::grouping;
  const auto& [size, target_order] = recipe.blocking;
  std::int64_t cost = 0;
  for (const grouping::Box& box :
       grouping::cut(grouping::merge_small_dimensions(shape, size, target_order), size))
    cost += shampoo::work_of(recipe, box, shampoo::Type::float32).work.cost;
  return cost;
}

/// Steps of a named recipe on tensors of one shape, on one thread: microseconds of a tensor in a
/// plain step, in a refresh, and on average, and what the average is per unit of its cost.
void step_of_tensor(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  namespace test = shampoo::test;
  const std::string name = test::recipe_names()[static_cast<std::size_t>(state.range(0))];
  const auto& [shape, count] = tensors()[static_cast<std::size_t>(state.range(1))];
  std::string label = name + " " + std::to_string(shape[0]);
  if (shape.size() > 1) label += "x" + std::to_string(shape[1]);
  state.SetLabel(label);

  test::Model model;
  for (int t = 0; t < count; ++t) model.tensors.push_back({"tensor" + std::to_string(t), shape});
  test::NamedRecipe named = test::named_recipe(name, block_size, refresh_interval);
  named.recipe.refresh.staggered = false;  // so that plain steps are timed, too
  const auto backend = test::cpu_kernels({.threads = 1});
  test::BenchTensors values(*backend, model, shampoo::Type::float32);
  const std::vector<shampoo::ParameterGroup> groups = values.groups(model, 1, named);
  if (groups.empty()) return state.SkipWithError("takes matrices only");
  const auto ranks = shampoo::single_rank_communicator();
  shampoo::Optimizer optimizer(*backend, *ranks, groups);

  std::vector<double> plain, refresh;
  std::int64_t step = 0;
  for (auto _ : state) {
    values.draw_gradients();
    const Clock::time_point begin = Clock::now();
    optimizer.step();
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    state.SetIterationTime(seconds.count());
    if (++step > refresh_interval)
      (step % refresh_interval == 0 ? refresh : plain).push_back(1e6 * seconds.count() / count);
  }
  const double average = test::median(plain) + (test::median(refresh) - test::median(plain)) /
                                                   static_cast<double>(refresh_interval);
  const auto cost = static_cast<double>(cost_of(named.recipe, shape));
  state.counters = {{"plain_us", test::median(plain)},
                    {"refresh_us", test::median(refresh)},
                    {"us", average},
                    {"cost", cost},
                    {"ps_per_cost", 1e6 * average / cost}};
}
BENCHMARK(step_of_tensor)
    ->ArgNames({"recipe", "shape"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, std::ssize(shampoo::test::recipe_names()) - 1, 1),
                   benchmark::CreateDenseRange(0, std::ssize(tensors()) - 1, 1)})
    ->Iterations(4 * refresh_interval)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
