// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/device_query.h"

#include <cuda_runtime_api.h>

#include <array>
#include <stdexcept>

#include "kernels/backend.h"

namespace shampoo::kernels::cuda {

namespace {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceError(std::string(call) + ": " + cudaGetErrorString(status));
}

/// CUDA's 13010 is 13.1.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string hexadecimal(const cudaUUID_t& uuid) {
  std::string text;
  for (const char byte : uuid.bytes)
    for (const int half : {byte >> 4 & 15, byte & 15}) text += "0123456789abcdef"[half];
  return text;
}

}  // namespace

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // the next call of the program is not to see it
  return 0;
}

DeviceFacts device_facts(int device) {
  const int count = device_count();
  if (count == 0)
    throw std::invalid_argument("device: there is no CUDA device here, or no driver for it");
  if (device < 0 || device >= count)
    throw std::invalid_argument("device: must be from 0 to " + std::to_string(count - 1) +
                                ", got " + std::to_string(device));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device),
        "cudaDeviceGetPCIBusId");
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .bytes = properties.totalGlobalMem,
          .bus = bus.data(),
          .uuid = hexadecimal(properties.uuid)};
}

CudaVersions cuda_versions() {
  int runtime = 0, driver = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");  // 0: none
  return {.toolkit = version_text(CUDART_VERSION),
          .runtime = version_text(runtime),
          .driver = driver == 0 ? "none" : version_text(driver)};
}

std::string describe_device(int device) {
  const DeviceFacts facts = device_facts(device);
  const CudaVersions versions = cuda_versions();
  return facts.name + ", sm_" + std::to_string(facts.major) + std::to_string(facts.minor) +
         ", CUDA runtime " + versions.runtime + ", driver " + versions.driver;
}

}  // namespace shampoo::kernels::cuda
