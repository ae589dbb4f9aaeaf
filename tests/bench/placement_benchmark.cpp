// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "grouping/placement.h"
#include "grouping/plan.h"

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

}  // namespace
