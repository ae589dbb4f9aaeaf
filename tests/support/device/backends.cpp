// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/backends.h"

#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cuda/device_backend.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/device/emulated_device.h"
#include "tests/support/device/staging_backend.h"

namespace shampoo::test {

namespace {

/// The backend of the program's GPU, or why it has none.
struct Gpu {
  std::shared_ptr<kernels::Backend> backend = {};
  std::string problem = {};
};

Gpu make_gpu() {
  try {
    return {.backend = with_kernels(cuda_backend(CudaOptions{.device = 0}))};
  } catch (const std::invalid_argument& error) {
    return {.problem = error.what()};
  } catch (const DeviceError& error) {
    return {.problem = error.what()};
  }
}

std::optional<Gpu> made;

const Gpu& gpu() {
  if (!made) made = make_gpu();
  return *made;
}

/// CUDA may be gone when static objects go.
class ReleaseOfGpu final : public ::testing::Environment {
 public:
  void TearDown() override { made.reset(); }
};
[[maybe_unused]] const ::testing::Environment* const release_of_gpu =
    ::testing::AddGlobalTestEnvironment(new ReleaseOfGpu);

}  // namespace

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

std::string missing(Place place) { return place == Place::cuda ? gpu().problem : ""; }

void require(Place place) {
  const std::string reason = missing(place);
  if (reason.empty()) return;
  const char* const required = std::getenv("SHAMPOO_REQUIRE_CUDA");
  if (required != nullptr && std::string(required) == "1") FAIL() << reason;
  GTEST_SKIP() << reason;
}

std::shared_ptr<kernels::Backend> backend_at(Place place, int threads) {
  switch (place) {
    case Place::cpu:
      return cpu_kernels({.threads = threads});
    case Place::emulated:
      return std::make_unique<kernels::cuda::DeviceBackend>(std::make_unique<EmulatedDevice>());
    case Place::cuda:
      if (!gpu().backend) throw std::invalid_argument(gpu().problem);
      return gpu().backend;
  }
  return nullptr;
}

std::unique_ptr<kernels::Backend> backend_with_host_arrays(Place place, int threads) {
  if (place == Place::cpu) return cpu_kernels({.threads = threads});
  return std::make_unique<StagingBackend>(backend_at(place, threads));
}

}  // namespace shampoo::test
