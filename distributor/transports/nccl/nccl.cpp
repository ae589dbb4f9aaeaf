// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl.h"

#include <nccl.h>

#include <stdexcept>
#include <utility>

#include "distributor/transports/nccl/nccl_connect.h"
#include "distributor/transports/nccl/nccl_device.h"
#include "kernels/cuda/device/device_query.h"

namespace shampoo {

bool has_nccl() { return true; }

namespace {

void check_options(int device, std::chrono::milliseconds deadline) {
  if (device < -1)
    throw std::invalid_argument("device: must be at least 0, or -1 for the current one, got " +
                                std::to_string(device));
  if (deadline.count() < 1)
    throw std::invalid_argument("deadline: must be at least 1 ms, got " +
                                std::to_string(deadline.count()) + " ms");
}

/// On this rank there may be no such device; all ranks are to hear of it.
auto calls_on(int device) {
  return [device]() -> std::shared_ptr<NcclCalls> {
    const int index = device >= 0 ? device : cuda_device_of({});
    static_cast<void>(kernels::cuda::device_facts(index));
    return nccl_calls(index);
  };
}

std::unique_ptr<Communicator> connect(Communicator& ranks, std::shared_ptr<Communicator> kept,
                                      const NcclOptions& options) {
  check_options(options.device, options.deadline);
  if (ranks.memory() != MemoryKind::host)
    throw std::invalid_argument("ranks: must work on host memory");
  return connect_nccl(*meet_over(ranks), {.place = {ranks.rank(), ranks.size()},
                                          .make_calls = calls_on(options.device),
                                          .host = std::move(kept),
                                          .deadline = options.deadline});
}

}  // namespace

std::unique_ptr<Communicator> nccl_communicator(Communicator& ranks, const NcclOptions& options) {
  return connect(ranks, nullptr, options);
}

std::unique_ptr<Communicator> nccl_communicator_over(std::shared_ptr<Communicator> ranks,
                                                     const NcclOptions& options) {
  return connect(*ranks, ranks, options);
}

std::unique_ptr<Communicator> nccl_communicator(int rank, int size, std::shared_ptr<Store> store,
                                                const NcclStoreOptions& options) {
  check_options(options.device, options.deadline);
  if (size < 1)
    throw std::invalid_argument("size: must be at least 1, got " + std::to_string(size));
  if (rank < 0 || rank >= size)
    throw std::invalid_argument("rank: must be from 0 to " + std::to_string(size - 1) + ", got " +
                                std::to_string(rank));
  if (!store) throw std::invalid_argument("store: must not be null");
  return connect_nccl_by_store(
      std::move(store),
      {.place = {rank, size}, .make_calls = calls_on(options.device), .deadline = options.deadline},
      options.prefix, options.store_server);
}

std::unique_ptr<Communicator> nccl_communicator_of(const void* nccl_comm, const NcclLoan& loan) {
  check_options(-1, loan.deadline);
  if (!nccl_comm) throw std::invalid_argument("nccl_comm: must point to an ncclComm_t, got null");
  const ncclComm_t comm = *static_cast<const ncclComm_t*>(nccl_comm);
  if (!comm) throw std::invalid_argument("nccl_comm: must be a communicator, got null");
  int device = -1;
  if (ncclCommCuDevice(comm, &device) != ncclSuccess)
    throw std::invalid_argument("nccl_comm: must be a communicator that is connected");
  return borrow_nccl(comm, nccl_calls(device), loan.shut_down, loan.deadline);
}

}  // namespace shampoo
