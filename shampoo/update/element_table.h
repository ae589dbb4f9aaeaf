// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/staged_array.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// Pointers and types of all parameters, as kernels read them.
class TensorTable {
 public:
  TensorTable() = default;
  TensorTable(kernels::StagedArrays& columns, std::size_t parameters);

  /// Writes what stays, into columns that have memory.
  void set_values(std::span<const RegisteredParameter> parameters);
  /// Takes over the gradient pointers; null where there is none.
  void set_gradients(std::span<const RegisteredParameter> parameters);

  kernels::Tensors tensors() const;

 private:
  kernels::StagedArray<void*> values_;
  kernels::StagedArray<const void*> gradients_;
  kernels::StagedArray<Type> value_types_, gradient_types_;
};

/// Entry of a table for a block of the parameter in `row`, except its place and shape: where its
/// elements start in the exchange buffer, their type there, and whether they are new values.
kernels::Block exchanged_block(const RegisteredParameter& parameter, int row, std::int64_t segment);

/// Table of blocks and their tiles.
class ElementTable {
 public:
  /// Appends a block. `block` holds the fields other than place and shape.
  void append(const RegisteredParameter& parameter, const grouping::Box& box, kernels::Block block,
              std::int64_t flat);
  /// Appends a whole tensor as one block, whose gradient is scanned in no wider type than that.
  void append_whole(const Parameter& parameter, int row, Type arithmetic = Type::float64);

  /// Makes the kernels that read gradients read values in their place: with Tensors whose gradients
  /// are the values.
  void read_values_as_gradients();

  /// Makes the kernels that write values write gradients in their place, in the same way.
  void write_gradients_as_values();

  /// Sends the table; nothing is appended afterwards.
  void upload(kernels::Backend& backend);

  kernels::TileTable elements(Type arithmetic, const kernels::Tensors& tensors) const;
  /// First of the numbers per tile that reductions leave, summed for each of `tensors`. Waits.
  std::vector<double> sums(kernels::Backend& backend, std::size_t tensors) const;
  std::int64_t block_count() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::span<const kernels::Block> blocks() const { return blocks_; }
  std::int64_t bytes() const;

 private:
  void append(const Parameter& parameter, const grouping::Shape& merged, const grouping::Box& box,
              kernels::Block block, std::int64_t flat);

  std::vector<kernels::Tile> tiles_;
  std::vector<kernels::Block> blocks_;
  kernels::Buffer sent_tiles_, sent_blocks_, partials_;
};

}  // namespace shampoo
