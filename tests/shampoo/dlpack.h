// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// What shampoo/dlpack.h reads of DLPack 1.0, for tests on machines without its header. A program
/// includes DLPack's own.
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)

extern "C" {

enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };
enum DLDataTypeCode {
  kDLInt = 0,
  kDLUInt,
  kDLFloat,
  kDLOpaqueHandle,
  kDLBfloat,
  kDLComplex,
  kDLBool
};

struct DLPackVersion {
  std::uint32_t major, minor;
};
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
}
