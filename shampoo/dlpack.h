// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifndef DLPACK_MAJOR_VERSION
#error "include the dlpack.h of your program, of DLPack 1.0 or later, before shampoo/dlpack.h"
#endif

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shampoo/shampoo.h"

/// Tensors in and out by DLPack's DLManagedTensorVersioned: numpy, torch, JAX, CuPy. Header only,
/// compiled with the dlpack.h that the program has and includes before; the library does not know
/// it. Debian's libdlpack-dev, 0.6, is older than the struct.
namespace shampoo::dlpack {

static_assert(DLPACK_MAJOR_VERSION == 1, "shampoo/dlpack.h is for DLPack 1");

struct Deleter {
  void operator()(DLManagedTensorVersioned* tensor) const noexcept {
    if (tensor->deleter) tensor->deleter(tensor);
  }
};
/// Ends the export of a tensor. What came from elsewhere, as from a capsule, goes into one, too,
/// and has to outlive what borrows its elements; release() hands one to its consumer.
using ManagedTensor = std::unique_ptr<DLManagedTensorVersioned, Deleter>;

inline DLDataType data_type(Type type) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(type));
  return {static_cast<std::uint8_t>(type == Type::bfloat16 ? kDLBfloat : kDLFloat), bits, 1};
}

/// Of a tensor of a checkpoint. Throws std::invalid_argument, naming it, for types of 8 bits and
/// less that are no integers.
inline DLDataType data_type(const SavedTensorInfo& tensor) {
  using enum checkpoint::Dtype;
  const auto of = [](int code, int bits) {
    return DLDataType{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  };
  switch (tensor.dtype) {
    case f64:
      return of(kDLFloat, 64);
    case f32:
      return of(kDLFloat, 32);
    case f16:
      return of(kDLFloat, 16);
    case bf16:
      return of(kDLBfloat, 16);
    case i64:
      return of(kDLInt, 64);
    case i32:
      return of(kDLInt, 32);
    case i16:
      return of(kDLInt, 16);
    case i8:
      return of(kDLInt, 8);
    case u64:
      return of(kDLUInt, 64);
    case u32:
      return of(kDLUInt, 32);
    case u16:
      return of(kDLUInt, 16);
    case u8:
      return of(kDLUInt, 8);
    case bool8:
      return of(kDLBool, 8);
    case c64:
      return of(kDLComplex, 64);
    default:
      throw std::invalid_argument("tensor '" + tensor.name + "': its dtype has none in DLPack 1.0");
  }
}

/// Whether step() writes the elements, or only reads them.
enum class Access : std::uint8_t { read, write };

inline std::vector<std::int64_t> shape_of(const DLManagedTensorVersioned& tensor) {
  return {tensor.dl_tensor.shape, tensor.dl_tensor.shape + tensor.dl_tensor.ndim};
}

/// The elements of a tensor, where they lie. Borrowed. Throws std::invalid_argument, naming `what`
/// and the field, for another version of DLPack, memory that is not the backend's, a dtype other
/// than float64, float32, bfloat16 and float16, lanes, negative strides, and a read-only tensor
/// that is to be written.
inline Tensor tensor_of(const DLManagedTensorVersioned& managed, const Backend& backend,
                        Access access, const std::string& what) {
  const DLTensor& tensor = managed.dl_tensor;
  const auto require = [&](bool holds, const std::string& range, std::int64_t found) {
    if (!holds) throw std::invalid_argument(what + ": " + range + ", got " + std::to_string(found));
  };
  require(managed.version.major == DLPACK_MAJOR_VERSION, "version: DLPack's must be 1",
          managed.version.major);
  const int place = tensor.device.device_type;
  if (backend.memory_kind() == MemoryKind::host) {
    require(place == kDLCPU || place == kDLCUDAHost,
            "device_type: must be 1 (CPU) or 3 (pinned), the backend's memory", place);
  } else {
    require(place == kDLCUDA || place == kDLCUDAManaged,
            "device_type: must be 2 (CUDA) or 13 (managed), the backend's memory", place);
    require(place == kDLCUDAManaged || tensor.device.device_id == backend.device(),
            "device_id: must be " + std::to_string(backend.device()) + ", the backend's",
            tensor.device.device_id);
  }
  require(tensor.dtype.lanes == 1, "lanes: must be 1", tensor.dtype.lanes);
  Tensor view;
  bool known = false;
  for (const Type type : {Type::float64, Type::float32, Type::bfloat16, Type::float16}) {
    const DLDataType same = data_type(type);
    if (same.code != tensor.dtype.code || same.bits != tensor.dtype.bits) continue;
    view.type = type;
    known = true;
  }
  require(known,
          "dtype: must be float64, float32, bfloat16 or float16; type code " +
              std::to_string(tensor.dtype.code) + ", bits",
          tensor.dtype.bits);
  require(access == Access::read || !(managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY),
          "flags: it is read-only, and steps write it", static_cast<std::int64_t>(managed.flags));
  if (tensor.data) view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (tensor.strides) view.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  for (const std::int64_t stride : view.strides)
    require(stride >= 0, "strides: must be >= 0", stride);
  return view;
}

/// A parameter of a value and its gradient; null: absent. Both are borrowed and must outlive the
/// optimizer. Throws as tensor_of(), and for a gradient of another shape.
inline Parameter parameter_of(std::string name, const DLManagedTensorVersioned& value,
                              const DLManagedTensorVersioned* gradient, const Backend& backend) {
  const std::string what = "parameter '" + name + "': ";
  Parameter parameter{.name = std::move(name),
                      .shape = shape_of(value),
                      .value = tensor_of(value, backend, Access::write, what + "value")};
  if (!gradient) return parameter;
  if (shape_of(*gradient) != parameter.shape)
    throw std::invalid_argument(what + "gradient: shape: must be that of the value");
  parameter.gradient = tensor_of(*gradient, backend, Access::read, what + "gradient");
  return parameter;
}

/// A tensor for others, with `keep_alive` held until they delete it; otherwise the elements have to
/// live as long. `strides`: empty: row-major.
inline ManagedTensor exported(void* data, DLDataType type, DLDevice device,
                              std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                              Access access, std::shared_ptr<const void> keep_alive) {
  struct Export {
    DLManagedTensorVersioned managed = {};
    std::vector<std::int64_t> shape, strides;
    std::shared_ptr<const void> keep_alive;
  };
  if (strides.empty()) {
    strides.assign(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  }
  auto made = std::make_unique<Export>();
  made->shape = std::move(shape);
  made->strides = std::move(strides);
  made->keep_alive = std::move(keep_alive);
  DLManagedTensorVersioned& managed = made->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.flags = access == Access::read ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  managed.dl_tensor.data = data;
  managed.dl_tensor.device = device;
  managed.dl_tensor.ndim = static_cast<std::int32_t>(made->shape.size());
  managed.dl_tensor.dtype = type;
  managed.dl_tensor.shape = made->shape.data();
  managed.dl_tensor.strides = made->strides.data();
  managed.manager_ctx = made.get();
  managed.deleter = [](DLManagedTensorVersioned* self) {
    delete static_cast<Export*>(self->manager_ctx);
  };
  return ManagedTensor(&made.release()->managed);
}

/// A view of a parameter's value or gradient, in the backend's memory.
inline ManagedTensor exported(const Tensor& tensor, std::vector<std::int64_t> shape,
                              const Backend& backend, Access access = Access::write,
                              std::shared_ptr<const void> keep_alive = nullptr) {
  const bool host = backend.memory_kind() == MemoryKind::host;
  const DLDevice device{host ? kDLCPU : kDLCUDA, host ? 0 : backend.device()};
  return exported(tensor.data, data_type(tensor.type), device, std::move(shape), tensor.strides,
                  access, std::move(keep_alive));
}

/// A read-only view of a tensor of a checkpoint, which shares its memory. Throws as data_type().
inline ManagedTensor exported(const SavedTensor& tensor) {
  return exported(const_cast<std::byte*>(tensor.data.get()), data_type(tensor), {kDLCPU, 0},
                  tensor.shape, {}, Access::read, tensor.data);
}

}  // namespace shampoo::dlpack
