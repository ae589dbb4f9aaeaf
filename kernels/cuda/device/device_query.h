// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace shampoo::kernels::cuda {

/// Properties that a CUDA device reports.
struct DeviceFacts {
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t bytes = 0;  ///< bytes of memory
  std::string bus;        ///< PCI address
  std::string uuid;       ///< tells devices apart, also parts of one
};

/// 0 where there is no device or no driver.
int device_count() noexcept;

/// Throws std::invalid_argument unless 0 <= device < device_count().
DeviceFacts device_facts(int device);

/// Of the toolkit that this was built with, of the runtime and of the driver: "13.0". The driver's
/// is "none" where there is none.
struct CudaVersions {
  std::string toolkit, runtime, driver;
};
CudaVersions cuda_versions();

/// For description(): "NVIDIA H200, sm_90, CUDA runtime 13.0, driver 13.1".
std::string describe_device(int device);

}  // namespace shampoo::kernels::cuda
