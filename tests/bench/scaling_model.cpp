// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scaling_model.h"

#include <algorithm>
#include <functional>

#include "grouping/segments.h"
#include "shampoo/update/block_work.h"
#include "shampoo/update/refresh_schedule.h"
#include "shampoo/update/slots.h"

namespace shampoo::test {
namespace {

constexpr std::int64_t header_bytes = 64;

double passes(const Slot& slot) {
  // What is derived is read in a plain step; everything else is read and written.
  return slot.derived ? 1 : 2;
}

Balance balance(std::span<const grouping::Work> ranks, const grouping::Work& bounds,
                std::int64_t grouping::Work::*field) {
  Balance result;
  double all = 0;
  for (const grouping::Work& rank : ranks) {
    result.largest = std::max(result.largest, rank.*field);
    all += static_cast<double>(rank.*field);
  }
  const auto largest = static_cast<double>(result.largest);
  if (all > 0) result.over_mean = largest * static_cast<double>(ranks.size()) / all;
  if (bounds.*field > 0) result.over_bound = largest / static_cast<double>(bounds.*field);
  return result;
}

void add_balances(const grouping::Plan& plan, Forecast& result) {
  std::vector<grouping::Work> blocks;
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v)
    for (const grouping::Block& block : plan.blocks[v])
      blocks.push_back(plan.block_work(v, block).work);
  const grouping::Work bounds = grouping::lower_bounds(blocks, plan.ranks);
  const std::vector<grouping::Work> ranks = grouping::loads(plan);
  result.cost = balance(ranks, bounds, &grouping::Work::cost);
  result.bytes = balance(ranks, bounds, &grouping::Work::bytes);
  result.state = balance(ranks, bounds, &grouping::Work::state);
}

void add_exchange(const grouping::Plan& plan, const Link& link, Forecast& result) {
  const grouping::Segments segments = grouping::segments(plan, header_bytes);
  const std::int64_t all = segments.begins.back();
  std::int64_t shortest = all;
  for (std::size_t r = 1; r < segments.begins.size(); ++r)
    shortest = std::min(shortest, segments.begins[r] - segments.begins[r - 1]);
  result.received_bytes = all - shortest;
  result.padding = static_cast<double>(segments.longest()) * plan.ranks /
                       static_cast<double>(all - segments.padding) -
                   1;
  result.exchange = exchange_seconds(link, plan.ranks, static_cast<double>(result.received_bytes));
}

}  // namespace

grouping::PlannedGroup planned_group(const Job& job) {
  const Blocking& blocking = job.recipe.blocking;
  grouping::PlannedGroup group{.recipe = canonical_text(job.recipe),
                               .parameters = {},
                               .interval = refresh_interval(job.recipe)};
  for (const Model::Tensor& tensor : job.model.tensors) {
    grouping::PlannedParameter parameter{
        .name = tensor.name,
        .shape =
            grouping::merge_small_dimensions(tensor.shape, blocking.size, blocking.target_order),
        .element_bytes = static_cast<std::int64_t>(size_of(job.type)),
        .blocks = {}};
    for (const grouping::Box& box : grouping::cut(parameter.shape, blocking.size))
      parameter.blocks.push_back(work_of(job.recipe, box, job.type));
    group.parameters.push_back(std::move(parameter));
  }
  return group;
}

double root_flops(std::int64_t side) {
  const auto n = static_cast<double>(side);
  // 4/3 reduction, 8/3 divide and conquer, 2 back-transformation, 1 product
  return 7 * n * n * n;
}

OwnerWork work_of_block(const Job& job, const grouping::Shape& extent) {
  const auto elements = static_cast<double>(grouping::numel(extent));
  const auto number = static_cast<double>(size_of(arithmetic_type(job.recipe)));
  const auto value = static_cast<double>(size_of(job.type));
  OwnerWork work;
  for (const Slot& slot : slots_of(job.recipe, extent, job.type))
    work.bytes += passes(slot) * static_cast<double>(count_of(slot, extent)) *
                  static_cast<double>(size_of(slot.type));
  // The gradient for the factors and for the filter, the value for its decay unless a master
  // stands in for it, what is sent; the direction: filtered, preconditioned in place, scaled.
  work.bytes += elements * ((has_master(job.type) ? 3 : 4) * value + 4 * number);

  double products = 0;
  for (const Slot& slot : slots_of(job.recipe, extent, job.type)) {
    if (!slot.derived) continue;
    const std::int64_t side = side_of(slot, extent);
    const auto n = static_cast<double>(side);
    // n (n + 1) / 2 sums of elements / n products; then n products for every element
    products += (n + 1) * elements + 2 * n * elements;
    work.roots.push_back(root_flops(side));
  }
  if (products > 0) work.products.push_back(products);
  return work;
}

std::vector<OwnerWork> work_of_ranks(const Job& job, const grouping::Plan& plan) {
  std::vector<OwnerWork> ranks(static_cast<std::size_t>(plan.ranks));
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v)
    for (const grouping::Block& block : plan.blocks[v]) {
      const OwnerWork work = work_of_block(job, plan.block_work(v, block).box.extent);
      OwnerWork& rank = ranks[block.owner];
      rank.products.insert(rank.products.end(), work.products.begin(), work.products.end());
      rank.roots.insert(rank.roots.end(), work.roots.begin(), work.roots.end());
      rank.bytes += work.bytes;
    }
  return ranks;
}

double replicated_bytes(const Job& job) {
  // The gradient; what was sent, and the value: written, and read unless new values were sent.
  const int numbers = 1 + (has_master(job.type) ? 2 : 3);
  return numbers * static_cast<double>(size_of(job.type)) * static_cast<double>(job.model.numel());
}

double makespan(std::vector<double> tasks, int workers) {
  std::sort(tasks.begin(), tasks.end(), std::greater<>());
  std::vector<double> busy(static_cast<std::size_t>(workers), 0);
  for (const double task : tasks) *std::min_element(busy.begin(), busy.end()) += task;
  return *std::max_element(busy.begin(), busy.end());
}

double exchange_seconds(const Link& link, int ranks, double received) {
  return (ranks - 1) * link.latency_us * 1e-6 + received / (link.gbytes * 1e9);
}

Forecast forecast(const Job& job, int ranks, const KernelRates& rates, const Link& link) {
  const grouping::Plan plan = grouping::plan({planned_group(job)}, ranks);
  Forecast result{.ranks = ranks};
  add_balances(plan, result);
  add_exchange(plan, link, result);

  const double replicated = replicated_bytes(job);
  const double product_rate = rates.gflops * 1e9 / rates.workers;
  const double root_rate = rates.eigen_gflops * 1e9 / rates.workers;
  for (const OwnerWork& work : work_of_ranks(job, plan)) {
    const double plain = makespan(work.products, rates.workers) / product_rate +
                         (work.bytes + replicated) / (rates.gbytes * 1e9);
    const double roots = makespan(work.roots, rates.workers) / root_rate;
    result.plain = std::max(result.plain, plain);
    result.refresh = std::max(result.refresh, plain + roots);
  }
  result.plain += result.exchange;
  result.refresh += result.exchange;
  const auto every = static_cast<double>(job.recipe.refresh.every);
  result.mean = (result.plain * (every - 1) + result.refresh) / every;
  return result;
}

}  // namespace shampoo::test
