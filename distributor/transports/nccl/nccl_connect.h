// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "distributor/communicator.h"
#include "distributor/rendezvous/failure_registry.h"
#include "distributor/transports/nccl/nccl_api.h"
#include "distributor/transports/nccl/nccl_bootstrap.h"
#include "distributor/transports/nccl/nccl_handle.h"

namespace shampoo {

struct NcclConnection {
  NcclCalls::Place place{0, 1};
  /// May throw, which all ranks are told.
  std::function<std::shared_ptr<NcclCalls>()> make_calls;
  std::optional<FailureRegistry> board = {};
  std::shared_ptr<Communicator> host = {};  ///< see NcclSetup
  std::chrono::milliseconds deadline = {};
};

/// A communicator of its own: ranks tell each other their hosts and devices, then NCCL's unique id.
/// Collective. Throws CommunicationError where a rank cannot take part, two have the same device,
/// or NCCL does not connect them before the deadline.
std::unique_ptr<Communicator> connect_nccl(NcclMeeting& meeting, NcclConnection connection);

/// The same over a store, which also becomes the board; see NcclStoreOptions.
std::unique_ptr<Communicator> connect_nccl_by_store(std::shared_ptr<Store> store,
                                                    NcclConnection connection,
                                                    const std::string& prefix,
                                                    const std::string& server);

/// Ranks of a communicator that the caller keeps; `shut_down` is called once when it fails.
/// Collective, over that communicator.
std::unique_ptr<Communicator> borrow_nccl(NcclCalls::Comm comm, std::shared_ptr<NcclCalls> calls,
                                          NcclHandle::ShutDown shut_down,
                                          std::chrono::milliseconds deadline);

}  // namespace shampoo
