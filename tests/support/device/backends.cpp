// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/backends.h"

#include <cstdlib>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cuda/device_backend.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/device/emulated_device.h"
#include "tests/support/device/staging_backend.h"

namespace shampoo::test {

std::string name_of(Place place) {
  switch (place) {
    case Place::cpu:
      return "cpu";
    case Place::emulated:
      return "emulated";
    case Place::cuda:
      return "cuda";
  }
  return "";
}

std::string missing(Place place) {
  if (place != Place::cuda) return "";
  try {
    cuda_backend(CudaOptions{.device = 0});
  } catch (const std::invalid_argument& error) {
    return error.what();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

void require(Place place) {
  const std::string reason = missing(place);
  if (reason.empty()) return;
  const char* const required = std::getenv("SHAMPOO_REQUIRE_CUDA");
  if (required != nullptr && std::string(required) == "1") FAIL() << reason;
  GTEST_SKIP() << reason;
}

std::unique_ptr<kernels::Backend> backend_at(Place place, int threads) {
  switch (place) {
    case Place::cpu:
      return cpu_kernels({.threads = threads});
    case Place::emulated:
      return std::make_unique<kernels::cuda::DeviceBackend>(std::make_unique<EmulatedDevice>());
    case Place::cuda:
      return with_kernels(cuda_backend(CudaOptions{.device = 0}));
  }
  return nullptr;
}

std::unique_ptr<kernels::Backend> backend_with_host_arrays(Place place, int threads) {
  std::unique_ptr<kernels::Backend> backend = backend_at(place, threads);
  if (backend->memory_kind() == MemoryKind::host) return backend;
  return std::make_unique<StagingBackend>(std::move(backend));
}

}  // namespace shampoo::test
