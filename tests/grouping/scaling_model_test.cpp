// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scaling_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "grouping/plan_description.h"
#include "grouping/segments.h"
#include "shampoo/shampoo.h"

namespace shampoo::test {
namespace {

/// Blocks 4 x 4 and 2 x 4 of a matrix, 4 and 1 of a vector.
Job tiny(Type type = Type::float32) {
  Job job{.model = {4, {{"w", {6, 4}}, {"b", {5}}}}, .recipe = {}, .type = type};
  job.recipe.blocking.size = 4;
  job.recipe.refresh.staggered = false;
  return job;
}

// n + 1 + 2 n flops for an element and a side of n:
// 16 (13 + 13), 8 (7 + 13), 4 * 13, 1 * 4
constexpr double expected_products = 416 + 160 + 52 + 4;
constexpr double expected_roots = 7 * ((64 + 64) + (8 + 64) + 64 + 1);
// A factor is read and written, its root read: 3 * 4 bytes of n (n + 1) / 2 numbers.
constexpr double triangles = 12 * ((10 + 10) + (3 + 10) + 10 + 1);
// M and V read and written; two gradients, the value, the update; four times the direction.
constexpr double bytes = 29 * (16 + 16 + 16) + triangles;

OwnerWork together(const std::vector<OwnerWork>& ranks) {
  OwnerWork sum;
  for (const OwnerWork& rank : ranks) {
    sum.products.insert(sum.products.end(), rank.products.begin(), rank.products.end());
    sum.roots.insert(sum.roots.end(), rank.roots.begin(), rank.roots.end());
    sum.bytes += rank.bytes;
  }
  return sum;
}

double sum_of(const std::vector<double>& tasks) {
  return std::accumulate(tasks.begin(), tasks.end(), 0.0);
}

/// The tables of a description: recipe, stacks, cost, bytes and state of every rank.
std::string groups_and_balance(const std::string& text) {
  const std::size_t begin = text.find("virtual group 0"), end = text.find("  workspace of");
  EXPECT_LT(begin, end) << text;
  return text.substr(begin, end - begin);
}

TEST(ScalingModel, TheRanksWorkIsTheSumOverTheBlocksByHand) {
  const Job job = tiny();
  for (const int ranks : {1, 2, 3, 7}) {
    const auto works = work_of_ranks(job, grouping::plan({planned_group(job)}, ranks));
    ASSERT_EQ(works.size(), static_cast<std::size_t>(ranks));
    const OwnerWork all = together(works);
    EXPECT_EQ(all.products.size(), 4u) << ranks;
    EXPECT_EQ(all.roots.size(), 6u) << ranks;
    EXPECT_DOUBLE_EQ(sum_of(all.products), expected_products) << ranks;
    EXPECT_DOUBLE_EQ(sum_of(all.roots), expected_roots) << ranks;
    EXPECT_DOUBLE_EQ(all.bytes, bytes) << ranks;
  }
  EXPECT_DOUBLE_EQ(replicated_bytes(job), 29 * 16);
}

TEST(ScalingModel, SixteenBitValuesHaveMastersAndAreSentAsNewValues) {
  const Job job = tiny(Type::bfloat16);
  const auto works = work_of_ranks(job, grouping::plan({planned_group(job)}, 2));
  // M, V and the master; two gradients and the new value; the direction.
  EXPECT_DOUBLE_EQ(together(works).bytes, 29 * (24 + 6 + 16) + triangles);
  EXPECT_DOUBLE_EQ(replicated_bytes(job), 29 * 6);
}

TEST(ScalingModel, ThePlanIsTheOneOfTheOptimizer) {
  Job job = tiny();
  job.recipe.refresh.staggered = true;
  std::vector<float> w(24), b(5), gw(24), gb(5);
  const auto backend = cpu_backend({.threads = 1});
  const auto alone = single_rank_communicator();
  const Optimizer optimizer(
      *backend, *alone,
      {{.parameters = {{.name = "w", .shape = {6, 4}, .value = w.data(), .gradient = gw.data()},
                       {.name = "b", .shape = {5}, .value = b.data(), .gradient = gb.data()}},
        .recipe = job.recipe}});

  EXPECT_EQ(groups_and_balance(optimizer.describe()),
            groups_and_balance(grouping::describe(grouping::plan({planned_group(job)}, 1))));
}

TEST(ScalingModel, AnExchangeTakesALatencyForEveryOtherRankAndTheTimeOfItsBytes) {
  const Link link{.latency_us = 5, .gbytes = 2};
  EXPECT_DOUBLE_EQ(exchange_seconds(link, 1, 0), 0);
  EXPECT_DOUBLE_EQ(exchange_seconds(link, 2, 0), 5e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(link, 1024, 3e9), 1023 * 5e-6 + 1.5);
}

TEST(ScalingModel, WorkersTakeTheLongestTaskThatIsLeft) {
  EXPECT_DOUBLE_EQ(makespan({}, 3), 0);
  EXPECT_DOUBLE_EQ(makespan({1, 2, 3}, 1), 6);
  EXPECT_DOUBLE_EQ(makespan({1, 2, 3}, 2), 3);
  EXPECT_DOUBLE_EQ(makespan({2, 2, 2}, 2), 4);
  EXPECT_DOUBLE_EQ(makespan({5, 1}, 8), 5);
}

TEST(ScalingModel, AStepOfOneRankIsItsWorkAtItsRates) {
  const KernelRates rates{.gflops = 2e-9, .gbytes = 4e-9, .eigen_gflops = 8e-9};
  const Forecast one = forecast(tiny(), 1, rates, {});
  const double plain = expected_products / 2 + (bytes + 29 * 16) / 4;

  EXPECT_EQ(one.received_bytes, 0);
  EXPECT_DOUBLE_EQ(one.plain, plain);
  EXPECT_DOUBLE_EQ(one.refresh, plain + expected_roots / 8);
  EXPECT_NEAR(one.mean, plain + expected_roots / 80, 1e-12 * plain);
  EXPECT_DOUBLE_EQ(one.state.over_mean, 1);
  EXPECT_DOUBLE_EQ(one.state.over_bound, 1);
}

TEST(ScalingModel, TheSlowestOfTwoRanksHasItsOwnBlocksAllTensorsAndTheExchange) {
  const Job job = tiny();
  const KernelRates rates{.gflops = 2e-9, .gbytes = 4e-9, .eigen_gflops = 8e-9};
  const Link link{.latency_us = 3e6, .gbytes = 1e-9};
  const grouping::Plan plan = grouping::plan({planned_group(job)}, 2);
  const auto begins = grouping::segments(plan, 64).begins;
  const std::int64_t first = begins[1], second = begins[2] - begins[1];
  double slowest = 0;
  for (const OwnerWork& work : work_of_ranks(job, plan))
    slowest = std::max(slowest, sum_of(work.products) / 2 + (work.bytes + 29 * 16) / 4);

  const Forecast two = forecast(job, 2, rates, link);
  EXPECT_EQ(two.received_bytes, std::max(first, second));
  EXPECT_DOUBLE_EQ(
      two.padding,
      2.0 * static_cast<double>(std::max(first, second)) / static_cast<double>(first + second) - 1);
  EXPECT_DOUBLE_EQ(two.exchange, 3 + static_cast<double>(std::max(first, second)));
  EXPECT_DOUBLE_EQ(two.plain, slowest + two.exchange);
}

TEST(ScalingModel, TheLargestStateIsAShareOfOneRanksAndABlock) {
  for (const char* const name : {"small", "many", "gpt2-124m", "vit-b16", "llama-1.3b"}) {
    Job job{.model = load_model(name), .recipe = {}, .type = Type::float32};
    job.recipe.blocking.size = job.model.block_size;
    const grouping::PlannedGroup group = planned_group(job);
    std::int64_t all = 0, largest_block = 0;
    for (const grouping::PlannedParameter& parameter : group.parameters)
      for (const grouping::BlockWork& block : parameter.blocks) {
        all += block.work.state;
        largest_block = std::max(largest_block, block.work.state);
      }
    for (const int ranks : {2, 3, 4, 8, 32, 256}) {
      const auto loads = grouping::loads(grouping::plan({group}, ranks));
      const auto largest = std::ranges::max(loads, {}, &grouping::Work::state).state;
      EXPECT_LE(static_cast<double>(largest),
                1.1 / ranks * static_cast<double>(all) + static_cast<double>(largest_block))
          << name << " on " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace shampoo::test
