// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "shampoo/distributor/communicator.h"
#include "shampoo/distributor/store/store.h"

namespace shampoo {

/// True if this build includes CUDA and NCCL.
bool has_nccl();

struct NcclOptions {
  /// CUDA index of this rank's device; -1: the current device of the calling thread.
  int device = -1;
  /// For connecting, and the initial deadline of collectives.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

/// A communicator in CUDA memory, one device per rank. NCCL's unique id is exchanged over `ranks`,
/// in host memory, which are needed only during the call. Collective; blocks.
///
/// Collectives run on an internal high-priority stream, ordered by events with the stream of the
/// lease; a watchdog thread enforces deadlines (see Communicator). abort() and failures shut NCCL
/// down on this rank; the others miss their deadline. A lease is released by a later call or the
/// destructor, on the calling thread, so a backend that owns leased memory must outlive the
/// communicator.
///
/// Collectives can be captured in a CUDA graph if each kind has run once without capture,
/// reductions with at least as many bytes, the capture contains the wait(), the buffers live as
/// long as the graph, and the graph is destroyed before the communicator. watch() starts the
/// deadline of a replay.
///
/// Reductions sum in rank order for bits equal to those of other transports (see
/// reduce_scatter()), so they do not use NCCL's, whose order is unspecified. Their scratch memory
/// is allocated on first use and grown when needed, beside what graphs may use.
///
/// Throws std::invalid_argument for invalid options, ranks outside host memory, and if this build
/// has no NCCL; CommunicationError if a rank has no device, two ranks share one, or NCCL does not
/// connect before the deadline.
std::unique_ptr<Communicator> nccl_communicator(Communicator& ranks,
                                                const NcclOptions& options = {});

struct NcclStoreOptions {
  int device = -1;                                                ///< see NcclOptions
  std::chrono::milliseconds deadline = std::chrono::minutes(10);  ///< see NcclOptions
  /// Prefix of all keys in the store: not used by another communicator, equal on all ranks.
  std::string prefix = {};
  /// Process that serves the store, for messages: "rank 0 of the job". May be empty.
  std::string store_server = {};
};

/// The same for ranks that find each other through a store, such as torchrun's. Collective. The
/// communicator keeps using the store: abort() and failures reach the other ranks through it, ranks
/// that do not respond after a failure are reported as missing, and ranks that hang in different
/// calls learn of both. The caller must not use this Store object or change its deadline
/// afterwards.
std::unique_ptr<Communicator> nccl_communicator(int rank, int size, std::shared_ptr<Store> store,
                                                const NcclStoreOptions& options = {});

struct BorrowedNcclOptions {
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// Called once, on any thread, on a missed deadline, an NCCL error or abort(), and expected to
  /// abort the NCCL communicator. If empty, its streams may block forever after a failure.
  std::function<void(std::string_view reason)> shut_down = {};
};

/// The same over an existing NCCL communicator, which is borrowed: it must outlive this one, is
/// neither aborted nor destroyed, and must not be used concurrently. Collective. `nccl_comm` points
/// to an ncclComm_t; nccl_interop.h has a typed overload.
std::unique_ptr<Communicator> nccl_communicator_of(const void* nccl_comm,
                                                   const BorrowedNcclOptions& options = {});

}  // namespace shampoo
