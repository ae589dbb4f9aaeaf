// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/strided_tiles.h"

#include <algorithm>
#include <numeric>

namespace shampoo {

using grouping::Box;
using grouping::Shape;
using kernels::Tile;

namespace {

constexpr std::int64_t largest = kernels::tile_elements;

/// Counts through all indices of a box, the last dimension fastest.
bool next(std::vector<std::int64_t>& index, std::span<const std::int64_t> extent) {
  for (std::size_t k = index.size(); k-- > 0;) {
    if (++index[k] < extent[k]) return true;
    index[k] = 0;
  }
  return false;
}

}  // namespace

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k];
  return strides;
}

StridedTensor::StridedTensor(const Shape& shape, const Shape& merged,
                             std::span<const std::int64_t> value_strides,
                             std::span<const std::int64_t> gradient_strides)
    : parts_(merged.size()), merged_(merged.size()) {
  std::size_t dimension = shape.size();
  for (std::size_t k = merged.size(); k-- > 0;) {
    Dimensions& part = parts_[k];
    for (std::int64_t extent = 1; extent < merged[k];) {
      --dimension;
      if (shape[dimension] == 1) continue;
      extent *= shape[dimension];
      part.insert(part.begin(),
                  {shape[dimension], value_strides[dimension], gradient_strides[dimension]});
    }
    merged_[k].extent = merged[k];
    if (part.empty()) continue;
    merged_[k].value = part.back().value;
    merged_[k].gradient = part.back().gradient;
    for (std::size_t j = 1; j < part.size(); ++j)
      regular_ = regular_ && part[j - 1].value == part[j].extent * part[j].value &&
                 part[j - 1].gradient == part[j].extent * part[j].gradient;
  }
}

void StridedTensor::append(const Box& box, std::int64_t flat, kernels::Block& block,
                           std::vector<Tile>& tiles) const {
  block.first_tile = static_cast<std::int32_t>(tiles.size());
  block.flat = flat;
  block.elements = grouping::numel(box.extent);
  if (regular_)
    append_regular(box, flat, block, tiles);
  else
    append_runs(box, flat, tiles);
  block.tile_count = static_cast<std::int32_t>(tiles.size()) - block.first_tile;
}

void StridedTensor::append_regular(const Box& box, std::int64_t flat, kernels::Block& block,
                                   std::vector<Tile>& tiles) const {
  Tile start;
  // Dimensions that are consecutive in value and gradient become one.
  Dimensions joined;
  for (std::size_t k = 0; k < merged_.size(); ++k) {
    const Dimension d{box.extent[k], merged_[k].value, merged_[k].gradient};
    start.value += box.offset[k] * d.value;
    start.gradient += box.offset[k] * d.gradient;
    if (!joined.empty() && joined.back().value == d.extent * d.value &&
        joined.back().gradient == d.extent * d.gradient)
      joined.back() = {joined.back().extent * d.extent, d.value, d.gradient};
    else
      joined.push_back(d);
  }

  const std::size_t order = merged_.size();
  block.regular = order == 1 || order == 2;
  block.gradient = start.gradient;
  if (order >= 1) block.gradient_column = merged_[order - 1].gradient;
  if (order == 2) block.gradient_row = merged_[0].gradient;

  while (joined.size() < 2) joined.insert(joined.begin(), Dimension{});
  const Dimension column = joined.back(), row = joined[joined.size() - 2];
  start.value_row = row.value;
  start.value_column = column.value;
  start.gradient_row = row.gradient;
  start.gradient_column = column.gradient;
  joined.resize(joined.size() - 2);

  std::vector<std::int64_t> extent, index(joined.size(), 0);
  for (const Dimension& d : joined) extent.push_back(d.extent);
  const std::int64_t columns = std::min(column.extent, largest);
  // Tiles start at multiples of 8 elements: 16 bytes of the smallest type, which kernels access at
  // a time.
  const std::int64_t unit = 8 / std::gcd(column.extent, std::int64_t{8});
  std::int64_t rows = std::max<std::int64_t>(1, largest / column.extent);
  if (rows > unit) rows -= rows % unit;
  do {
    Tile panel = start;
    for (std::size_t k = 0; k < joined.size(); ++k) {
      panel.value += index[k] * joined[k].value;
      panel.gradient += index[k] * joined[k].gradient;
    }
    for (std::int64_t r = 0; r < row.extent; r += rows)
      for (std::int64_t c = 0; c < column.extent; c += columns) {
        Tile tile = panel;
        tile.flat = flat;
        tile.value += r * row.value + c * column.value;
        tile.gradient += r * row.gradient + c * column.gradient;
        tile.rows = static_cast<std::int32_t>(std::min(rows, row.extent - r));
        tile.columns = static_cast<std::int32_t>(std::min(columns, column.extent - c));
        flat += std::int64_t{tile.rows} * tile.columns;
        tiles.push_back(tile);
      }
  } while (next(index, extent));
}

void StridedTensor::append_runs(const Box& box, std::int64_t flat, std::vector<Tile>& tiles) const {
  // Element offsets of index i of one merged dimension.
  const auto offset = [](const Dimensions& part, std::int64_t i, std::int64_t Dimension::*stride) {
    std::int64_t sum = 0;
    for (std::size_t j = part.size(); j-- > 0; i /= part[j].extent)
      sum += i % part[j].extent * (part[j].*stride);
    return sum;
  };
  const std::size_t last = merged_.size() - 1;
  const Dimensions& part = parts_[last];
  const Dimension column = part.empty() ? Dimension{} : part.back();
  const Dimension row = part.size() < 2 ? Dimension{} : part[part.size() - 2];
  std::vector<std::int64_t> index(last, 0);
  do {
    for (std::int64_t i = 0; i < box.extent[last];) {
      const std::int64_t at = box.offset[last] + i, rest = box.extent[last] - i;
      Tile tile{.flat = flat};
      for (std::size_t k = 0; k <= last; ++k) {
        const std::int64_t j = k == last ? at : box.offset[k] + index[k];
        tile.value += offset(parts_[k], j, &Dimension::value);
        tile.gradient += offset(parts_[k], j, &Dimension::gradient);
      }
      // The rest of a row, or whole rows up to the end of the dimension around them.
      const std::int64_t columns = std::min({rest, column.extent - at % column.extent, largest});
      std::int64_t rows = 1;
      if (columns == column.extent)
        rows =
            std::min({rest / columns, row.extent - at / columns % row.extent, largest / columns});
      tile.rows = static_cast<std::int32_t>(rows);
      tile.columns = static_cast<std::int32_t>(columns);
      tile.value_row = row.value;
      tile.value_column = column.value;
      tile.gradient_row = row.gradient;
      tile.gradient_column = column.gradient;
      flat += rows * columns;
      i += rows * columns;
      tiles.push_back(tile);
    }
  } while (next(index, std::span(box.extent).first(last)));
}

}  // namespace shampoo
