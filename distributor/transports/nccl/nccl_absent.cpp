// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "distributor/transports/nccl/device_reducer.h"
#include "distributor/transports/nccl/nccl.h"
#include "distributor/transports/nccl/nccl_over_ranks.h"

namespace shampoo {

namespace {

[[noreturn]] void refuse_nccl() {
  throw std::invalid_argument(
      "NCCL: not included in this build; install a CUDA toolkit, for example with "
      "tests/setup_cuda.sh, and configure with -DSHAMPOO_CUDA=ON");
}

}  // namespace

bool has_nccl() { return false; }

std::shared_ptr<Reducer> make_device_reducer(const void*) { return nullptr; }

std::unique_ptr<Communicator> nccl_communicator(Communicator&, const NcclOptions&) {
  refuse_nccl();
}

std::unique_ptr<Communicator> nccl_communicator(int, int, std::shared_ptr<Store>,
                                                const NcclStoreOptions&) {
  refuse_nccl();
}

std::unique_ptr<Communicator> nccl_communicator_of(const void*, const BorrowedNcclOptions&) {
  refuse_nccl();
}

std::unique_ptr<Communicator> nccl_communicator_over(std::shared_ptr<Communicator>,
                                                     const NcclOptions&) {
  refuse_nccl();
}

}  // namespace shampoo
