// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grouping/plan.h"
#include "kernels/types.h"
#include "shampoo/recipe.h"
#include "tests/support/models.h"

namespace shampoo::test {

/// What a job trains: all tensors of a model in one group, values and gradients of one type.
struct Job {
  Model model;
  Recipe recipe;
  Type type = Type::float32;
};

/// The group that the optimizer plans for the job. Throws where grouping::cut() throws.
grouping::PlannedGroup planned_group(const Job& job);

/// What the owner of blocks has to do. A product or a root is one task, which one worker does.
struct OwnerWork {
  std::vector<double> products;  ///< every step, flops per block: factors and preconditioning
  std::vector<double> roots;     ///< in a refresh, flops per factor: root_flops()
  double bytes = 0;              ///< every step, read and written
};

/// Flops that count for the root of a factor, whatever solver computes it: as many as a symmetric
/// eigendecomposition takes and the product that forms the root, 7 n^3.
double root_flops(std::int64_t side);

/// The work of one block.
OwnerWork work_of_block(const Job& job, const grouping::Shape& extent);

/// The work of every rank's blocks.
std::vector<OwnerWork> work_of_ranks(const Job& job, const grouping::Plan& plan);

/// Bytes that every rank reads and writes in a step however many ranks there are: all gradients to
/// look at, all updates to apply.
double replicated_bytes(const Job& job);

/// Time until `workers` >= 1 have done all tasks, each the longest one that is left when it is
/// free; in the unit of the tasks.
double makespan(std::vector<double> tasks, int workers);

/// What the kernels of one rank reach, all of its workers together.
struct KernelRates {
  double gflops = 0;        ///< products, 1e9 flops per second
  double gbytes = 0;        ///< memory, 1e9 bytes per second
  double eigen_gflops = 0;  ///< roots, 1e9 of root_flops() per second
  int workers = 1;          ///< each reaches its share of gflops and eigen_gflops
};

struct Link {
  double latency_us = 5;  ///< of a message between neighbours
  double gbytes = 12.5;   ///< that a rank receives, 1e9 bytes per second; it sends at the same time
};

/// A ring all-gather in which a rank gets `received` bytes: (ranks - 1) latency + received / rate.
double exchange_seconds(const Link& link, int ranks, double received);

/// One field of grouping::Work over the ranks.
struct Balance {
  std::int64_t largest = 0;  ///< of a rank
  double over_mean = 0;      ///< largest / mean
  double over_bound = 0;     ///< largest / what no placement gets below
};

/// Times are those of the slowest rank, in seconds.
struct Forecast {
  int ranks = 1;
  Balance cost = {}, bytes = {}, state = {};
  std::int64_t received_bytes = 0;  ///< by the rank that gets most, in a step
  double padding = 0;               ///< share that segments of equal length add, or would
  double exchange = 0;
  double plain = 0;    ///< a step without a refresh
  double refresh = 0;  ///< a step in which all roots are recomputed
  double mean = 0;     ///< over a refresh interval
};

/// Plans the job for `ranks` and predicts its steps. Throws where grouping::plan() throws.
Forecast forecast(const Job& job, int ranks, const KernelRates& rates, const Link& link);

}  // namespace shampoo::test
