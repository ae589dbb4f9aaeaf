// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/bootstrap.h"

#include <cstdint>
#include <exception>
#include <map>
#include <span>
#include <utility>

#include "distributor/rank_list.h"
#include "distributor/serialization.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/system/host_name.h"
#include "distributor/system/time_left.h"
#include "distributor/text_consensus.h"
#include "distributor/transports/nccl/nccl_transport.h"

namespace shampoo {

namespace {

using Clock = NcclHandle::Clock;

RankInfo nccl_rank_info(const NcclApi::Position& position, int local_rank) {
  return {.rank = position.rank,
          .size = position.size,
          .local_rank = local_rank,
          .memory = MemoryKind::cuda};
}

struct PeerInfo {
  std::string host = {}, device = {};
  std::string error = {};      ///< why the rank cannot participate
  std::string unique_id = {};  ///< of NCCL, on rank 0
};

template <typename Visitor>
void for_each_field(Visitor&& visit, PeerInfo& info) {
  visit("host", info.host);
  visit("device", info.device);
  visit("error", info.error);
  visit("unique_id", info.unique_id);
}

/// What a rank is told about the others.
struct Reply {
  std::string error = {};  ///< why there is no job
  std::string unique_id = {};
  int local_rank = 0;
};

template <typename Visitor>
void for_each_field(Visitor&& visit, Reply& reply) {
  visit("error", reply.error);
  visit("unique_id", reply.unique_id);
  visit("local_rank", reply.local_rank);
}

/// Why these ranks cannot be connected; empty if they can.
std::string find_error(const std::vector<PeerInfo>& peers) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;
  for (std::size_t r = 0; r < peers.size(); ++r) {
    users[{peers[r].host, peers[r].device}].push_back(static_cast<int>(r));
    if (!peers[r].error.empty())
      return "rank " + std::to_string(r) + " on " + peers[r].host +
             " cannot participate: " + peers[r].error;
  }
  for (const auto& [device, ranks] : users)
    if (ranks.size() > 1)
      return rank_list(ranks) + " on " + device.first + " use the same CUDA device, " +
             device.second + "; each needs its own, for example that of its local rank";
  return {};
}

std::vector<std::string> replies_to(const std::vector<std::string>& texts) {
  std::vector<PeerInfo> peers;
  for (const std::string& text : texts) peers.push_back(deserialize<PeerInfo>(text));
  const std::string error = find_error(peers);
  std::map<std::string, int> ranks_of_host;
  std::vector<std::string> replies;
  for (const PeerInfo& peer : peers) {
    Reply reply{error, peers.front().unique_id, ranks_of_host[peer.host]++};
    replies.push_back(serialize(reply));
  }
  return replies;
}

std::string get(Store& store, const std::string& key, int rank, Clock::time_point end) {
  if (!store.wait(std::vector<std::string>{key}, time_left(end)))
    throw CommunicationError("rank " + std::to_string(rank) + " did not arrive in time", {rank});
  const auto value = store.get(key);
  if (!value) throw CommunicationError("the store lost the key " + key);
  return *value;
}

}  // namespace

Bootstrap make_bootstrap(Communicator& ranks) {
  return [&ranks](const std::string& own, const BootstrapReplies& replies) {
    return replies(gather_texts(ranks, own)).at(static_cast<std::size_t>(ranks.rank()));
  };
}

Bootstrap make_bootstrap(std::shared_ptr<SynchronizedStore> store, std::string prefix,
                         const NcclApi::Position& position, Clock::time_point end) {
  return [=](const std::string& own, const BootstrapReplies& replies) {
    BoundedStore bounded(store, end);
    const auto key = [&](const char* kind, int rank) {
      return prefix + "/" + kind + "/" + std::to_string(rank);
    };
    if (position.rank > 0) {
      bounded.set(key("rank", position.rank), own);
      return get(bounded, key("reply", position.rank), 0, end);
    }
    std::vector<std::string> all{own};
    for (int r = 1; r < position.size; ++r) all.push_back(get(bounded, key("rank", r), r, end));
    const std::vector<std::string> said = replies(all);
    for (int r = 1; r < position.size; ++r)
      bounded.set(key("reply", r), said[static_cast<std::size_t>(r)]);
    return said.front();
  };
}

std::unique_ptr<Communicator> connect_nccl(const Bootstrap& bootstrap, NcclConnectOptions options) {
  const auto end = options.end.value_or(Clock::now() + options.deadline);
  std::exception_ptr error;
  PeerInfo own{.host = host_name()};
  NcclResources resources{.registry = options.registry,
                          .host = options.host,
                          .deadline = options.deadline,
                          .host_id = host_id(own.host)};
  try {
    resources.api = options.make_api();
    own.device = resources.api->device_name();
    if (options.position.rank == 0) own.unique_id = resources.api->unique_id();
  } catch (const std::exception& caught) {
    error = std::current_exception();
    own.error = caught.what();
  }
  const auto reply = deserialize<Reply>(bootstrap(serialize(own), replies_to));
  if (error) std::rethrow_exception(error);
  if (!reply.error.empty()) throw CommunicationError(reply.error);
  resources.info = nccl_rank_info(options.position, reply.local_rank);

  resources.handle = std::make_unique<NcclHandle>(
      resources.api, resources.api->connect(options.position, reply.unique_id));
  const auto before = before_failure_detection(time_left(end, std::chrono::milliseconds(1)));
  try {
    resources.handle->wait_until_ready(resources.registry ? Clock::now() + before : end,
                                       "connecting");
  } catch (const CommunicationError& caught) {
    resources.handle->shut_down(caught.what());
    if (resources.registry) throw resources.registry->diagnose(caught.what(), before);
    throw;
  }
  return make_nccl_communicator(std::move(resources));
}

std::unique_ptr<Communicator> connect_nccl_by_store(std::shared_ptr<Store> store,
                                                    NcclConnectOptions options,
                                                    const std::string& prefix,
                                                    const std::string& server) {
  const auto end = Clock::now() + options.deadline;
  const auto locked = std::make_shared<SynchronizedStore>(std::move(store));
  options.registry.emplace(locked, prefix, server, options.position.rank, options.position.size);
  options.registry->barrier(options.deadline);
  const Bootstrap bootstrap = make_bootstrap(locked, prefix + "/nccl", options.position, end);
  options.end = end;
  return connect_nccl(bootstrap, std::move(options));
}

std::unique_ptr<Communicator> borrow_nccl(NcclApi::Comm comm, std::shared_ptr<NcclApi> api,
                                          NcclHandle::ShutDown shut_down,
                                          std::chrono::milliseconds deadline) {
  const auto end = Clock::now() + deadline;
  const NcclApi::Position position = api->position(comm);
  NcclResources resources{.api = api,
                          .handle = std::make_unique<NcclHandle>(api, comm, std::move(shut_down)),
                          .deadline = deadline,
                          .host_id = host_id()};
  std::vector<std::uint64_t> hosts(static_cast<std::size_t>(position.size));
  hosts[static_cast<std::size_t>(position.rank)] = resources.host_id;
  const auto destroy = [&](void* stream) { api->destroy_stream(stream); };
  const std::unique_ptr<void, decltype(destroy)> stream(api->make_stream(), destroy);
  try {
    gather_through_device(*resources.handle, stream.get(), position, hosts.data(),
                          sizeof hosts.front(), end);
  } catch (const CommunicationError& error) {
    resources.handle->shut_down(error.what());
    throw;
  }
  resources.info = nccl_rank_info(position, local_rank_of(position.rank, hosts));
  return make_nccl_communicator(std::move(resources));
}

}  // namespace shampoo
