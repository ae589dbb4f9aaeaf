// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/device/device_query.h"
#include "kernels/cuda/device_backend.h"

namespace shampoo {

namespace {

void validate(const CudaOptions& options) {
  const int devices = kernels::cuda::device_count();
  if (devices == 0)
    throw std::invalid_argument("cuda_backend: there is no CUDA device here, or no driver for it");
  if (options.device < -1 || options.device >= devices)
    throw std::invalid_argument("cuda_backend: device is " + std::to_string(options.device) +
                                "; it must be in [-1, " + std::to_string(devices - 1) + "]");
  if (!options.allocator.allocate != !options.allocator.release)
    throw std::invalid_argument(
        "cuda_backend: allocator has one of allocate and release; it must "
        "have both or none");
}

}  // namespace

bool has_cuda() { return true; }

std::unique_ptr<Backend> cuda_backend(const CudaOptions& options) {
  using namespace kernels::cuda;
  validate(options);
  CudaOptions chosen = options;
  if (chosen.device < 0) check(cudaGetDevice(&chosen.device), "cudaGetDevice", 0);
  const OnDevice current(chosen.device);
  return std::make_unique<DeviceBackend>(std::make_unique<CudaDevice>(chosen));
}

std::unique_ptr<Backend> cuda_backend(void* stream) {
  return cuda_backend(CudaOptions{.stream = stream});
}

}  // namespace shampoo
