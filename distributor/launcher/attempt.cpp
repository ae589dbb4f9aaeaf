// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/attempt.h"

#include <utility>

#include "distributor/launcher/program.h"
#include "distributor/launcher/worker.h"
#include "distributor/system/host_name.h"

namespace shampoo::launcher {

std::vector<WorkerRanks> ranks_of(const Order& order, int id) {
  std::vector<WorkerRanks> result;
  WorkerRanks first;
  std::string role;
  first.group_world_size = static_cast<int>(order.members.size());
  for (const Member& member : order.members)
    if (member.id == id) role = member.role;
  first.world_size = first.role_world_size = 0;
  for (std::size_t i = 0; i < order.members.size(); ++i) {
    const Member& member = order.members[i];
    const int with_role = member.role == role ? member.workers : 0;
    if (member.id == id) {
      first.group_rank = static_cast<int>(i);
      first.local_world_size = member.workers;
      first.rank = first.world_size;
      first.role_rank = first.role_world_size;
      result.resize(static_cast<std::size_t>(member.workers));
    }
    first.world_size += member.workers;
    first.role_world_size += with_role;
  }
  for (WorkerRanks& ranks : result) {
    ranks = first;
    ++first.local_rank, ++first.rank, ++first.role_rank;
  }
  return result;
}

Attempt::Attempt(const LaunchOptions& options, const LogFolder& folder,
                 const Environment& inherited, const Order& order, std::vector<WorkerRanks> ranks)
    : options_(options),
      folder_(folder),
      inherited_(inherited),
      order_(order),
      ranks_(std::move(ranks)),
      logs_(options, folder, order.attempt) {}

WorkerStart Attempt::start_of(const WorkerRanks& ranks) const {
  WorkerStart start;
  start.ranks = ranks;
  start.store_host = order_.store_host;
  start.store_port = order_.store_port;
  start.restarts = order_.restarts;
  start.attempt = order_.attempt;
  start.error_file = folder_.error_file(order_.attempt, ranks.local_rank);
  return start;
}

void Attempt::start(WorkerGroup& group, const DescriptorLimit& limit) {
  for (const WorkerRanks& ranks : ranks_) {
    const Program program = worker_program(options_, ranks.local_rank, inherited_);
    const WorkerStreams streams = logs_.open(ranks);
    const Environment environment = worker_environment(options_, start_of(ranks), inherited_);
    group.add(start_worker(program, environment, streams, limit), ranks.local_rank);
  }
}

std::vector<WorkerFailure> Attempt::failures(const std::vector<WorkerExit>& exits) const {
  std::vector<WorkerFailure> result;
  for (const WorkerExit& exit : exits) {
    if (exit.code == 0) continue;
    WorkerFailure failure;
    failure.time = exit.time;
    failure.host = host_name();
    failure.local_rank = exit.local_rank;
    failure.rank = ranks_[static_cast<std::size_t>(exit.local_rank)].rank;
    failure.exit_code = exit.code;
    failure.pid = exit.pid;
    failure.error_file = folder_.error_file(order_.attempt, exit.local_rank);
    failure.error = read_error_file(failure.error_file);
    result.push_back(std::move(failure));
  }
  return result;
}

}  // namespace shampoo::launcher
