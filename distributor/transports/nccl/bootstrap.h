// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/rendezvous/failure_registry.h"
#include "distributor/store/synchronized_store.h"
#include "distributor/transports/nccl/nccl_api.h"
#include "distributor/transports/nccl/nccl_handle.h"

namespace shampoo {

/// Gathers one text of every rank before NCCL connects them, and gives each rank its reply: that of
/// replies(texts by rank) for it. Called once. Collective; throws CommunicationError.
using BootstrapReplies =
    std::function<std::vector<std::string>(const std::vector<std::string>& texts)>;
using Bootstrap =
    std::function<std::string(const std::string& own, const BootstrapReplies& replies)>;

/// Over ranks in host memory, which must outlive it.
Bootstrap make_bootstrap(Communicator& ranks);
/// Over a store, below an unused prefix. Rank 0 collects, so that requests and bytes are linear in
/// the number of ranks. Throws CommunicationError, naming the rank, after `end`.
Bootstrap make_bootstrap(std::shared_ptr<SynchronizedStore> store, std::string prefix,
                         const NcclApi::Position& position, NcclHandle::Clock::time_point end);

struct NcclConnectOptions {
  NcclApi::Position position{0, 1};
  /// If it throws, all ranks throw.
  std::function<std::shared_ptr<NcclApi>()> make_api;
  std::optional<FailureRegistry> registry = {};
  std::shared_ptr<Communicator> host = {};  ///< see NcclResources
  /// Of collectives, and for connecting unless `end` is set.
  std::chrono::milliseconds deadline = {};
  std::optional<NcclHandle::Clock::time_point> end = {};  ///< when connecting must be over
};

/// Exchanges host, device and NCCL's unique id, then connects. Collective. Throws
/// CommunicationError if a rank cannot participate, two ranks share a device, or NCCL does not
/// connect them before the deadline.
std::unique_ptr<Communicator> connect_nccl(const Bootstrap& bootstrap, NcclConnectOptions options);

/// The same over a store, which also serves failure detection; see NcclStoreOptions.
std::unique_ptr<Communicator> connect_nccl_by_store(std::shared_ptr<Store> store,
                                                    NcclConnectOptions options,
                                                    const std::string& prefix,
                                                    const std::string& server);

/// A communicator over a borrowed NCCL communicator; `shut_down` is called once on failure.
/// Collective, over that communicator.
std::unique_ptr<Communicator> borrow_nccl(NcclApi::Comm comm, std::shared_ptr<NcclApi> api,
                                          NcclHandle::ShutDown shut_down,
                                          std::chrono::milliseconds deadline);

}  // namespace shampoo
