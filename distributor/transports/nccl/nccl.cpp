// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <stdexcept>
#include <utility>

#include "distributor/transports/nccl/bootstrap.h"
#include "distributor/transports/nccl/device_reducer.h"
#include "distributor/transports/nccl/nccl_over_ranks.h"
#include "distributor/transports/transport.h"
#include "kernels/cuda/device/device_query.h"

namespace shampoo {

bool has_nccl() { return true; }

namespace {

void check_options(int device, std::chrono::milliseconds deadline) {
  if (device < -1)
    throw std::invalid_argument("device: must be at least 0, or -1 for the current one, got " +
                                std::to_string(device));
  validate_deadline(deadline);
}

void check_call(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // must not affect the caller's next call
  throw CommunicationError(std::string(call) + ": " + cudaGetErrorString(status));
}

int current_device() {
  int device = -1;
  check_call(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

/// Deferred, so that a missing device is reported to all ranks.
auto api_factory(int device) {
  return [device]() -> std::shared_ptr<NcclApi> {
    const int index = device >= 0 ? device : current_device();
    static_cast<void>(kernels::cuda::device_facts(index));
    return make_nccl_api(index);
  };
}

std::unique_ptr<Communicator> connect(Communicator& ranks, std::shared_ptr<Communicator> keep,
                                      const NcclOptions& options) {
  check_options(options.device, options.deadline);
  if (ranks.memory() != MemoryKind::host)
    throw std::invalid_argument("ranks: must use host memory");
  return connect_nccl(make_bootstrap(ranks), {.position = {ranks.rank(), ranks.size()},
                                              .make_api = api_factory(options.device),
                                              .host = std::move(keep),
                                              .deadline = options.deadline});
}

}  // namespace

std::shared_ptr<Reducer> make_device_reducer(const void* data) {
  cudaPointerAttributes memory{};
  check_call(cudaPointerGetAttributes(&memory, data), "cudaPointerGetAttributes");
  const bool is_known = memory.type != cudaMemoryTypeUnregistered;
  return std::make_shared<DeviceReducer>(
      make_nccl_api(is_known ? memory.device : current_device()));
}

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
  validate_rank_info({.rank = rank, .size = size}, "");
  if (!store) throw std::invalid_argument("store: must not be null");
  return connect_nccl_by_store(std::move(store),
                               {.position = {rank, size},
                                .make_api = api_factory(options.device),
                                .deadline = options.deadline},
                               options.prefix, options.store_server);
}

std::unique_ptr<Communicator> nccl_communicator_of(const void* nccl_comm,
                                                   const BorrowedNcclOptions& options) {
  check_options(-1, options.deadline);
  if (!nccl_comm) throw std::invalid_argument("nccl_comm: must point to an ncclComm_t, got null");
  const ncclComm_t comm = *static_cast<const ncclComm_t*>(nccl_comm);
  if (!comm) throw std::invalid_argument("nccl_comm: must be a communicator, got null");
  int device = -1;
  if (ncclCommCuDevice(comm, &device) != ncclSuccess)
    throw std::invalid_argument("nccl_comm: must be a connected communicator");
  return borrow_nccl(comm, make_nccl_api(device), options.shut_down, options.deadline);
}

}  // namespace shampoo
