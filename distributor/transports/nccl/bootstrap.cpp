// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/bootstrap.h"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <utility>

#include "distributor/rank_list.h"
#include "distributor/serialization.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/system/host_name.h"
#include "distributor/text_consensus.h"
#include "distributor/transports/nccl/nccl_transport.h"

namespace shampoo {

namespace {

using Clock = NcclHandle::Clock;

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

void check_errors(const std::vector<PeerInfo>& peers) {
  for (std::size_t r = 0; r < peers.size(); ++r)
    if (!peers[r].error.empty())
      throw CommunicationError("rank " + std::to_string(r) + " on " + peers[r].host +
                               " cannot participate: " + peers[r].error);
}

void check_devices(const std::vector<PeerInfo>& peers) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;
  for (std::size_t r = 0; r < peers.size(); ++r)
    users[{peers[r].host, peers[r].device}].push_back(static_cast<int>(r));
  for (const auto& [device, ranks] : users)
    if (ranks.size() > 1)
      throw CommunicationError(rank_list(ranks) + " on " + device.first +
                               " use the same CUDA device, " + device.second +
                               "; each needs its own, for example that of its local rank");
}

std::string get(BoundedStore& store, const std::string& key, int rank) {
  if (!store.wait(std::vector<std::string>{key}, store.left()))
    throw CommunicationError("rank " + std::to_string(rank) + " did not arrive in time", {rank});
  const auto value = store.get(key);
  if (!value) throw CommunicationError("the store lost the key " + key);
  return *value;
}

}  // namespace

Bootstrap make_bootstrap(Communicator& ranks) {
  return [&ranks](const std::string& own) { return gather_texts(ranks, own); };
}

/// Rank 0 collects, so that the number of requests is linear in the number of ranks.
Bootstrap make_bootstrap(std::shared_ptr<SynchronizedStore> store, std::string prefix,
                         const NcclApi::Position& position, Clock::time_point end) {
  return [=](const std::string& own) {
    BoundedStore bounded(store, end);
    if (position.rank > 0) {
      bounded.set(prefix + "/" + std::to_string(position.rank), own);
      return deserialize<std::vector<std::string>>(get(bounded, prefix + "/all", 0));
    }
    std::vector<std::string> all{own};
    for (int r = 1; r < position.size; ++r)
      all.push_back(get(bounded, prefix + "/" + std::to_string(r), r));
    bounded.set(prefix + "/all", serialize(all));
    return all;
  };
}

std::unique_ptr<Communicator> connect_nccl(const Bootstrap& bootstrap, NcclConnectOptions options) {
  const auto end = options.end.value_or(Clock::now() + options.deadline);
  NcclResources resources{
      .registry = options.registry, .host = options.host, .deadline = options.deadline};
  std::exception_ptr error;
  PeerInfo own{.host = host_name()};
  try {
    resources.api = options.make_api();
    own.device = resources.api->device_name();
    if (options.position.rank == 0) own.unique_id = resources.api->unique_id();
  } catch (const std::exception& caught) {
    error = std::current_exception();
    own.error = caught.what();
  }
  std::vector<PeerInfo> peers;
  for (const std::string& record : bootstrap(serialize(own)))
    peers.push_back(deserialize<PeerInfo>(record));
  if (error) std::rethrow_exception(error);
  check_errors(peers);
  check_devices(peers);
  for (const PeerInfo& peer : peers) resources.hosts.push_back(peer.host);

  resources.handle = std::make_unique<NcclHandle>(
      resources.api, resources.api->connect(options.position, peers.front().unique_id));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  const auto before = before_failure_detection(std::max(left, std::chrono::milliseconds(1)));
  try {
    resources.handle->wait_until_ready(resources.registry ? Clock::now() + before : end,
                                       "connecting");
  } catch (const CommunicationError& caught) {
    resources.handle->shut_down(caught.what());
    if (resources.registry) throw resources.registry->diagnose(caught.what(), before);
    throw;
  }
  return make_nccl_communicator(options.position.rank, std::move(resources));
}

std::unique_ptr<Communicator> connect_nccl_by_store(std::shared_ptr<Store> store,
                                                    NcclConnectOptions options,
                                                    const std::string& prefix,
                                                    const std::string& server) {
  const auto end = Clock::now() + options.deadline;
  const auto locked = std::make_shared<SynchronizedStore>(std::move(store), options.deadline);
  options.registry.emplace(locked, prefix, server, options.position.rank, options.position.size);
  options.registry->barrier(host_name(), options.deadline);
  const Bootstrap bootstrap = make_bootstrap(locked, prefix + "/nccl", options.position, end);
  options.end = end;
  return connect_nccl(bootstrap, std::move(options));
}

std::unique_ptr<Communicator> borrow_nccl(NcclApi::Comm comm, std::shared_ptr<NcclApi> api,
                                          NcclHandle::ShutDown shut_down,
                                          std::chrono::milliseconds deadline) {
  using Name = std::array<char, 64>;
  const auto end = Clock::now() + deadline;
  const NcclApi::Position position = api->position(comm);
  NcclResources resources{.api = api,
                          .handle = std::make_unique<NcclHandle>(api, comm, std::move(shut_down)),
                          .deadline = deadline};
  std::vector<Name> names(static_cast<std::size_t>(position.size), Name{});
  host_name().copy(names[position.rank].data(), sizeof(Name) - 1);
  const auto destroy = [&](void* stream) { api->destroy_stream(stream); };
  const std::unique_ptr<void, decltype(destroy)> stream(api->make_stream(), destroy);
  try {
    gather_through_device(*resources.handle, stream.get(), position, names.data(), sizeof(Name),
                          end);
  } catch (const CommunicationError& error) {
    resources.handle->shut_down(error.what());
    throw;
  }
  for (const Name& name : names) resources.hosts.emplace_back(name.data());
  return make_nccl_communicator(position.rank, std::move(resources));
}

}  // namespace shampoo
