// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/soak_job.h"

#include <csignal>
#include <filesystem>
#include <numeric>
#include <thread>

#include "shampoo/checkpoint.h"
#include "tests/distributor/launcher/launched_job.h"

namespace shampoo::test {

namespace {

using namespace std::chrono_literals;
using launcher::test::LaunchedJob;

constexpr auto longest = 30s;

struct Blow {
  int rank, restarts;
};

/// Waits until the rank trains, or, if it is to be hit early, until it has a page.
bool await_start(const JobFolder& folder, const Blow& blow, bool early) {
  return comes_true(longest, [&] {
    const std::optional<Progress> now = folder.progress(blow.rank, blow.restarts);
    return now && (early || now->phase >= Phase::gradients);
  });
}

/// Whether the rank was there to be killed. Its page then says for ever where it was.
bool strike(const JobFolder& folder, const Blow& blow) {
  const std::optional<Progress> now = folder.progress(blow.rank, blow.restarts);
  return now && now->phase != Phase::ended && kill(now->process, SIGKILL) == 0;
}

/// The checksum that all ranks have; nothing where they differ or lack one.
std::optional<std::uint64_t> common_checksum(const JobFolder& folder, int ranks, int restarts) {
  std::optional<std::uint64_t> common;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::optional<Progress> end = folder.progress(rank, restarts);
    if (!end || end->phase != Phase::ended) return {};
    if (common && *common != end->checksum) return {};
    common = end->checksum;
  }
  return common;
}

std::filesystem::path checkpoints_in(const JobFolder& folder) {
  return std::filesystem::path(folder.path()) / "checkpoints";
}

std::vector<std::string> orders_of(const JobPlan& plan, const JobFolder& folder) {
  std::vector<std::string> orders{"progress=" + folder.path(), "model=heavy",
                                  "steps=" + std::to_string(plan.steps), "deadline=20",
                                  "connect=30"};
  if (plan.saves == Saves::none) return orders;
  orders.push_back("checkpoints=" + checkpoints_in(folder).string());
  orders.push_back("every=" + std::to_string(steps_between_saves));
  orders.push_back(std::string("threaded=") + (plan.saves == Saves::threaded ? "yes" : "no"));
  return orders;
}

bool are_good(const std::filesystem::path& root, int steps) {
  const CheckpointListing listing = list_checkpoints(root);
  // Two, and the one that the last process went on from.
  return listing.broken.empty() && listing.stale.empty() && listing.complete.size() >= 2 &&
         listing.complete.size() <= 3 &&
         listing.complete.back().step == steps - steps % steps_between_saves;
}

}  // namespace

int JobEnd::kills() const { return std::accumulate(hits.begin(), hits.end(), 0); }

JobEnd run_job(const JobPlan& plan, std::mt19937_64& random) {
  const JobFolder folder;
  LaunchedJob job({"--nproc-per-node", std::to_string(plan.ranks), "--max-restarts",
                   std::to_string(plan.kills)},
                  orders_of(plan, folder), FAULT_TRAINER);
  JobEnd end;
  int restarts = 0;
  while (restarts < plan.kills) {
    const Blow blow{.rank = std::uniform_int_distribution(0, plan.ranks - 1)(random),
                    .restarts = restarts};
    const bool early = std::uniform_int_distribution(0, 9)(random) == 0;
    const double longest_wait = early ? 0.1 : plan.longest_wait;
    const double wait = std::uniform_real_distribution(0.0, longest_wait)(random);
    if (!await_start(folder, blow, early)) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    if (!strike(folder, blow)) break;
    ++restarts;
    // The launcher must have noticed before the next blow, and the page be at rest.
    if (!comes_true(longest, [&] { return folder.progress(0, restarts).has_value(); })) break;
    const Phase hit = folder.progress(blow.rank, blow.restarts).value().phase;
    ++end.hits[static_cast<std::size_t>(hit)];
  }
  end.code = job.wait();
  end.left_nothing = job.leaves_nothing();
  end.checksum = common_checksum(folder, plan.ranks, restarts);
  end.output = job.output();
  end.resumed = job.count("goes on after step");
  if (plan.saves != Saves::none)
    end.good_checkpoints = are_good(checkpoints_in(folder), plan.steps);
  return end;
}

}  // namespace shampoo::test
