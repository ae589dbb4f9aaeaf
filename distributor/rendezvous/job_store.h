// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "distributor/rendezvous/detection.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"

namespace shampoo::rendezvous {

/// The client is destroyed before the server.
struct JobStore {
  std::shared_ptr<StoreServer> server;  ///< null: another process serves
  std::unique_ptr<Store> client;
};

/// Reaches the store of the job until `end`. Rank 0 serves it unless the launcher does or the port
/// is in use; where what listens there is no store of the job, it tries again. All stores that this
/// process serves at one place are one, which lasts as long as one of them. Throws
/// CommunicationError.
std::shared_ptr<JobStore> open_store(const Detected& detected,
                                     std::chrono::steady_clock::time_point end);

}  // namespace shampoo::rendezvous
