// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "kernels/backend.h"

namespace shampoo {

bool has_cuda() { return false; }

std::unique_ptr<Backend> cuda_backend(const CudaOptions&) {
  throw std::invalid_argument(
      "CUDA: this build has none; install CUDA 13 and NCCL and configure with -DSHAMPOO_CUDA=ON");
}

std::unique_ptr<Backend> cuda_backend(void*) { return cuda_backend(CudaOptions{}); }

}  // namespace shampoo
