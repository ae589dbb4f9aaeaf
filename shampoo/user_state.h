// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "shampoo/group.h"

namespace shampoo {

namespace checkpoint {

/// The element types of the safetensors format.
enum class Dtype : std::uint8_t {
  bool8,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

}  // namespace checkpoint

/// The elements of a user tensor, in the backend's memory. Of any type that safetensors files have,
/// also of those that nothing is computed with. Borrowed.
struct UserTensorData {
  void* data = nullptr;
  checkpoint::Dtype dtype = checkpoint::Dtype::f32;
  /// Strides in elements, of a row-major tensor; may be empty.
  std::vector<std::int64_t> strides = {};

  UserTensorData() = default;
  UserTensorData(float* elements) : data(elements) {}
  UserTensorData(double* elements) : UserTensorData(elements, checkpoint::Dtype::f64) {}
  UserTensorData(std::int64_t* elements) : UserTensorData(elements, checkpoint::Dtype::i64) {}
  UserTensorData(std::int32_t* elements) : UserTensorData(elements, checkpoint::Dtype::i32) {}
  UserTensorData(std::uint64_t* elements) : UserTensorData(elements, checkpoint::Dtype::u64) {}
  UserTensorData(std::uint32_t* elements) : UserTensorData(elements, checkpoint::Dtype::u32) {}
  UserTensorData(std::uint8_t* elements) : UserTensorData(elements, checkpoint::Dtype::u8) {}
  UserTensorData(const Tensor& tensor);
  UserTensorData(void* elements, checkpoint::Dtype element_type)
      : data(elements), dtype(element_type) {}
};

/// Whose a user tensor is.
enum class Sharding : std::uint8_t {
  /// The same on all ranks; one of them saves it. A save compares a checksum of it between the
  /// ranks: of all bytes of up to 1 MiB, of larger tensors of 64 parts of 16 KiB.
  shared,
  /// Each rank saves and loads its own, whose shape may differ from that of the others. Loaded by
  /// as many ranks as saved it, see CheckpointOptions::other_ranks.
  per_rank
};

/// A tensor of the trainer: a parameter's value, an average of it, a buffer of a layer, ...
/// shared; the state of a random number generator or of a data loader may be per rank. A load wants
/// the dtype and the shape that were saved, and converts nothing.
struct UserTensor {
  std::string name = {};                 ///< unique in the user state, UTF-8, not empty
  std::vector<std::int64_t> shape = {};  ///< of at most 64 sides; empty: a scalar
  UserTensorData tensor = {};
  Sharding sharding = Sharding::shared;
};

using UserValue = std::variant<std::int64_t, double, std::string>;

/// The trainer's own state, saved and loaded together with the optimizer's. Names of tensors and of
/// values are the same on all ranks; names and strings are UTF-8. The values, and likewise those of
/// a rank, have at most 32 MiB together, where each counts for up to 448 bytes beside its name and
/// its text, 16 MiB each and 16,384 in number: what is larger is a tensor.
struct UserState {
  std::vector<UserTensor> tensors = {};
  std::map<std::string, UserValue> values = {};  ///< by name, the same on all ranks
  /// By name, each rank its own; as Sharding::per_rank. No name that `values` has.
  std::map<std::string, UserValue> rank_values = {};
};

}  // namespace shampoo
