// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/facets.h"
#include "tests/kernels/host_tensor.h"

namespace shampoo::test {

struct TensorCase {
  std::vector<std::int64_t> shape;
  Type value = Type::float32, gradient = Type::float32;
  Layout layout = Layout::packed;
  Type wire_type = Type::float32;
  bool is_value = false;
  kernels::Mode mode = kernels::Mode::preconditioned;
  kernels::Coefficients coefficients = {};
  std::uint64_t seed = 1;  ///< of the random elements
};

struct Cut {
  std::int64_t block_side = 1 << 20;
  std::int64_t tile_elements = kernels::tile_elements;
  bool has_masters = true;  ///< where the value has 16 bits
};

/// Arguments of kernels for tensors cut into blocks, and all their slots, filled
/// with random numbers that depend on each tensor's seed alone.
class Table {
 public:
  Table(std::vector<TensorCase> tensors, Type arithmetic_type, Cut cut = {});
  Table(const Table&) = delete;

  kernels::TileTable elements();
  kernels::PassContext phase() {
    return {elements_, modes.data(), coefficients.data(), &scale, &proceed};
  }
  std::vector<kernels::Selection> selected() const;
  /// With all slots: a diagonal grafting, and norms of what is asked for.
  kernels::GradientPass gradient_pass();
  /// With all slots.
  kernels::UpdatePass update_pass(kernels::AveragingRule averaging);

  /// Number in its tensor, row-major, of an element of a block.
  std::int64_t place(std::size_t block, std::int64_t element) const;
  double value(std::size_t block, std::int64_t element);
  double gradient(std::size_t block, std::int64_t element);
  double slot(const Bytes& slot, std::int64_t flat) const;
  /// Element (i, j) with j <= i of the factor, or with j >= i of the root, of dimension k.
  double factor(std::size_t stack, std::size_t k, std::int64_t index, std::int64_t i,
                std::int64_t j);
  double root(std::size_t stack, std::size_t k, std::int64_t index, std::int64_t i, std::int64_t j);

  /// Forgets which blocks the matrix kernels take: all that are not absent.
  void select_present();

  std::vector<TensorCase> cases;
  Type arithmetic;
  std::vector<HostTensor> values, gradients;
  std::vector<kernels::Block> blocks;
  std::vector<std::vector<std::int64_t>> starts, extents;  ///< of each block
  std::vector<kernels::Tile> tiles;
  std::vector<kernels::Mode> modes;
  std::vector<kernels::Coefficients> coefficients;
  std::vector<kernels::Stack> stacks;
  std::vector<std::vector<std::int32_t>> selections;  ///< per stack
  double scale = 1;
  std::int32_t proceed = 1;

  // Flat slots in the arithmetic type, masters in float32, and the segment.
  Bytes first_moment, second_moment, companion, grafting_moment, grafting_companion, direction,
      momentum, masters, segment;
  std::vector<std::vector<Bytes>> factors;  ///< per stack and dimension
  std::vector<double> grafting_norms, direction_norms, partials;

 private:
  void cut_blocks(const Cut& cut);
  void cut_tiles(std::size_t block, std::int64_t limit);
  void make_slots(bool has_masters);
  void make_stacks();

  kernels::TileTable elements_;
  std::vector<void*> value_pointers_;
  std::vector<const void*> gradient_pointers_;
  std::vector<Type> value_types_, gradient_types_;
};

}  // namespace shampoo::test
