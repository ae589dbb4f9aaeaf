// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/attempt.h"

#include <utility>

#include "distributor/launcher/program.h"
#include "distributor/launcher/worker.h"
#include "distributor/system/host_name.h"

namespace shampoo::launcher {

std::vector<WorkerRanks> ranks_of(const Order& order, int node) {
  const Member& own = order.members[static_cast<std::size_t>(node)];
  WorkerRanks first;
  first.local_world_size = own.workers;
  first.group_rank = node;
  first.group_world_size = static_cast<int>(order.members.size());
  first.world_size = first.role_world_size = 0;
  for (int other = 0; other < first.group_world_size; ++other) {
    const Member& member = order.members[static_cast<std::size_t>(other)];
    if (other == node) {
      first.rank = first.world_size;
      first.role_rank = first.role_world_size;
    }
    first.world_size += member.workers;
    if (member.role == own.role) first.role_world_size += member.workers;
  }
  std::vector<WorkerRanks> result(static_cast<std::size_t>(own.workers));
  for (WorkerRanks& ranks : result) {
    ranks = first;
    ++first.local_rank, ++first.rank, ++first.role_rank;
  }
  return result;
}

Attempt::Attempt(const LaunchOptions& options, const LogFolder& folder,
                 const Environment& inherited, const Order& order, std::vector<WorkerRanks> ranks,
                 std::uint16_t store_port)
    : options_(options),
      folder_(folder),
      inherited_(inherited),
      number_(order.attempt),
      ranks_(std::move(ranks)),
      store_port_(store_port),
      logs_(options, folder, order.attempt) {}

void Attempt::start(WorkerGroup& group, const DescriptorLimit& limit) {
  for (const WorkerRanks& ranks : ranks_) {
    const auto command = worker_command(options_, ranks.local_rank, inherited_);
    const WorkerStreams streams = logs_.open(ranks);
    const WorkerStart start{.ranks = ranks,
                            .store_host = options_.endpoint_host,
                            .store_port = store_port_,
                            .attempt = number_,
                            .error_file = folder_.error_file(number_, ranks.local_rank)};
    const Environment environment = worker_environment(options_, start, inherited_);
    group.add(start_worker(command, environment, streams, limit), ranks.local_rank);
  }
}

std::vector<WorkerFailure> Attempt::failures(const std::vector<WorkerExit>& exits) const {
  std::vector<WorkerFailure> result;
  for (const WorkerExit& exit : exits) {
    if (exit.code == 0) continue;
    WorkerFailure& failure = result.emplace_back();
    failure.time = exit.time;
    failure.host = host_name();
    failure.local_rank = exit.local_rank;
    failure.rank = ranks_[static_cast<std::size_t>(exit.local_rank)].rank;
    failure.exit_code = exit.code;
    failure.pid = exit.pid;
    failure.error_file = folder_.error_file(number_, exit.local_rank);
    failure.error = read_error_file(failure.error_file);
  }
  return result;
}

}  // namespace shampoo::launcher
