// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "distributor/communicator.h"
#include "distributor/store/store.h"

namespace shampoo {

/// Whether this build has CUDA and NCCL.
bool has_nccl();

struct NcclOptions {
  /// CUDA's index of this rank's device; -1: the calling thread's current one.
  int device = -1;
  /// Of connecting, and of collectives as long as nobody sets another.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

/// Ranks with one CUDA device each, in its memory. NCCL's unique id travels over `ranks`, in host
/// memory, which are needed only for the time of the call. Collective; waits for all ranks.
///
/// Collectives run on a stream of their own with high priority, tied by events to the stream of the
/// loan. A thread looks after them; see Communicator for how failures are noticed. abort() and a
/// failure shut NCCL down on this rank; the others meet their deadline. The owner of a loan is
/// given back by a later call or the destructor, on the thread that makes it; so a backend whose
/// memory was lent must outlive the communicator.
///
/// Collectives can be captured in a CUDA graph: each kind once without capture before, the stream
/// waits for the completion inside the capture, loans must live as long as the graph, and the graph
/// must be gone before the communicator. watch() starts the deadline of a replay.
///
/// Sums in the order of ranks have the bits that other transports give (see reduce_scatter()), so
/// they do not use NCCL's own, whose order is not documented. Memory for them is allocated by the
/// first call, and by one with more numbers.
///
/// Throws std::invalid_argument where this build has no NCCL, naming the CMake option, for options
/// out of range and for ranks that are not in host memory; CommunicationError where a rank has no
/// device, two have the same, or NCCL does not connect them before the deadline.
std::unique_ptr<Communicator> nccl_communicator(Communicator& ranks,
                                                const NcclOptions& options = {});

struct NcclStoreOptions {
  int device = -1;  ///< see NcclOptions
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// Prefix of all keys in the store: never used before, and the same on all ranks.
  std::string prefix = {};
  /// Whose process serves the store, for messages: "rank 0 of the job". Empty: not known.
  std::string store_server = {};
};

/// Ranks that find each other by the store, of torchrun for one. Collective. The communicator goes
/// on using the store: abort() reaches the other ranks by it, and who does not answer after a
/// failure is named. Nobody else may use this Store object, or change its deadline, from then on.
std::unique_ptr<Communicator> nccl_communicator(int rank, int size, std::shared_ptr<Store> store,
                                                const NcclStoreOptions& options = {});

struct NcclLoan {
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// Called once, on any thread, when a deadline is missed, NCCL reports an error or abort() is
  /// called: to abort the communicator, as nobody else does. Unless set, its streams may then wait
  /// for ever.
  std::function<void(std::string_view reason)> shut_down = {};
};

/// The ranks of the caller's communicator, which must outlive this one and is neither aborted nor
/// destroyed; no other thread may use it at the same time. Collective. `nccl_comm` points to an
/// ncclComm_t; distributor/nccl_interop.h has a function that takes one.
std::unique_ptr<Communicator> nccl_communicator_of(const void* nccl_comm,
                                                   const NcclLoan& loan = {});

}  // namespace shampoo
