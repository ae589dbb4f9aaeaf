// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/table.h"

#include <algorithm>
#include <numeric>

#include "grouping/box.h"
#include "grouping/stack.h"

namespace shampoo::test {

namespace {

/// Of element number `element` of a row-major array.
Extents indices_of(std::int64_t element, const Extents& extent) {
  Extents result(extent.size());
  for (std::size_t k = extent.size(); k-- > 0;) {
    result[k] = element % extent[k];
    element /= extent[k];
  }
  return result;
}

Bytes slot_of(std::int64_t count, Type type) {
  return Bytes(static_cast<std::size_t>(count) * size_of(type));
}

void fill(Bytes& slot, Type type, std::int64_t first, std::int64_t count, Numbers& numbers,
          bool positive = false) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = rounded(numbers.next(), type);
    write(slot.data() + static_cast<std::size_t>(first + i) * size_of(type), type,
          positive ? std::abs(x) : x);
  }
}

}  // namespace

Table::Table(std::vector<TensorCase> tensors, Type arithmetic_type, Cut cut)
    : cases(std::move(tensors)), arithmetic(arithmetic_type) {
  for (const TensorCase& c : cases) {
    Numbers numbers(c.seed);
    values.push_back(host_tensor(c.shape, c.value, c.layout, numbers));
    gradients.push_back(host_tensor(c.shape, c.gradient, c.layout, numbers));
  }
  cut_blocks(cut);
  for (std::size_t b = 0; b < blocks.size(); ++b) cut_tiles(b, cut.tile_elements);
  make_slots(cut.has_masters);
  make_stacks();
  select_present();
  elements_ = elements();
}

void Table::cut_blocks(const Cut& cut) {
  struct Box {
    std::int32_t tensor;
    Extents start, extent;
  };
  std::vector<Box> boxes;
  for (std::size_t t = 0; t < cases.size(); ++t) {
    const Extents& shape = cases[t].shape;
    Extents counts;
    for (const std::int64_t n : shape) counts.push_back((n + cut.block_side - 1) / cut.block_side);
    for (std::int64_t i = 0; i < grouping::numel(counts); ++i) {
      Box box{static_cast<std::int32_t>(t), indices_of(i, counts), shape};
      for (std::size_t k = 0; k < shape.size(); ++k) {
        box.start[k] *= cut.block_side;
        box.extent[k] = std::min(cut.block_side, shape[k] - box.start[k]);
      }
      boxes.push_back(box);
    }
  }
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const Box& a, const Box& b) { return a.extent < b.extent; });

  std::int64_t flat = 0;
  for (const Box& box : boxes) {
    const Extents& strides = gradients[static_cast<std::size_t>(box.tensor)].strides;
    kernels::Block block{
        .tensor = box.tensor, .flat = flat, .elements = grouping::numel(box.extent)};
    block.regular = box.extent.size() == 1 || box.extent.size() == 2;
    block.gradient =
        std::inner_product(box.start.begin(), box.start.end(), strides.begin(), std::int64_t{0});
    if (block.regular) block.gradient_column = strides.back();
    if (box.extent.size() == 2) block.gradient_row = strides.front();
    flat += grouping::flat_stride(box.extent);
    blocks.push_back(block);
    starts.push_back(box.start);
    extents.push_back(box.extent);
  }
}

void Table::cut_tiles(std::size_t b, std::int64_t limit) {
  kernels::Block& block = blocks[b];
  const auto tensor = static_cast<std::size_t>(block.tensor);
  const Extents& extent = extents[b];
  const std::size_t order = extent.size();
  const std::int64_t columns = order == 0 ? 1 : extent[order - 1];
  const std::int64_t rows = order < 2 ? 1 : extent[order - 2];
  const std::int64_t width = std::min(columns, limit);
  const std::int64_t height = std::max<std::int64_t>(1, limit / columns);
  const auto stride = [&](const HostTensor& t, std::size_t back) {
    return order < back ? std::int64_t{back == 1} : t.strides[order - back];
  };

  block.first_tile = static_cast<std::int32_t>(tiles.size());
  for (std::int64_t outer = 0; outer < block.elements; outer += rows * columns)
    for (std::int64_t row = 0; row < rows; row += height)
      for (std::int64_t column = 0; column < columns; column += width) {
        const std::int64_t first = outer + row * columns + column;
        kernels::Tile tile{.block = static_cast<std::int32_t>(b), .tensor = block.tensor};
        tile.flat = block.flat + first;
        tile.rows = static_cast<std::int32_t>(std::min(height, rows - row));
        tile.columns = static_cast<std::int32_t>(std::min(width, columns - column));
        const auto offset = [&](HostTensor& t) {
          return (static_cast<std::byte*>(t.at(place(b, first))) -
                  static_cast<std::byte*>(t.base())) /
                 static_cast<std::ptrdiff_t>(size_of(t.type));
        };
        tile.value = offset(values[tensor]);
        tile.gradient = offset(gradients[tensor]);
        tile.value_row = stride(values[tensor], 2);
        tile.value_column = stride(values[tensor], 1);
        tile.gradient_row = stride(gradients[tensor], 2);
        tile.gradient_column = stride(gradients[tensor], 1);
        tiles.push_back(tile);
      }
  block.tile_count = static_cast<std::int32_t>(tiles.size()) - block.first_tile;
}

void Table::make_slots(bool has_masters) {
  std::int64_t flat = 0, master = 0, bytes = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    kernels::Block& block = blocks[b];
    const TensorCase& c = cases[static_cast<std::size_t>(block.tensor)];
    flat = block.flat + grouping::flat_stride(extents[b]);
    if (has_masters && has_master(c.value)) {
      block.master = master;
      master += block.elements;
    }
    block.wire_type = c.wire_type;
    block.is_value = c.is_value;
    block.segment = bytes;
    bytes += (block.elements * static_cast<std::int64_t>(size_of(c.wire_type)) + 7) / 8 * 8;
    modes.push_back(c.mode);
    coefficients.push_back(c.coefficients);
  }
  for (auto* slot : {&first_moment, &second_moment, &companion, &grafting_moment,
                     &grafting_companion, &direction, &momentum})
    *slot = slot_of(flat, arithmetic);
  masters = slot_of(master, Type::float32);
  segment.assign(static_cast<std::size_t>(bytes), 0x5a);
  grafting_norms.assign(blocks.size(), -1);
  direction_norms.assign(blocks.size(), -1);
  partials.assign(3 * tiles.size(), -1);

  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const kernels::Block& block = blocks[b];
    Numbers numbers(cases[static_cast<std::size_t>(block.tensor)].seed + 1000);
    fill(first_moment, arithmetic, block.flat, block.elements, numbers);
    fill(grafting_moment, arithmetic, block.flat, block.elements, numbers, true);
    fill(direction, arithmetic, block.flat, block.elements, numbers);
    fill(momentum, arithmetic, block.flat, block.elements, numbers);
    if (block.master >= 0) fill(masters, Type::float32, block.master, block.elements, numbers);
    fill(second_moment, arithmetic, block.flat, block.elements, numbers, true);
    fill(companion, arithmetic, block.flat, block.elements, numbers, true);
    fill(grafting_companion, arithmetic, block.flat, block.elements, numbers, true);
  }
}

void Table::make_stacks() {
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (b > 0 && extents[b] == extents[b - 1]) {
      ++stacks.back().count;
      continue;
    }
    stacks.push_back(
        {extents[b], static_cast<std::int64_t>(b), 1, grouping::flat_stride(extents[b]), {}});
  }
  for (kernels::Stack& stack : stacks) {
    auto& arrays = factors.emplace_back(stack.extent.size());
    for (std::size_t k = 0; k < stack.extent.size(); ++k) {
      const std::int64_t n = stack.extent[k], size = n * (n + 1);
      arrays[k] = slot_of(stack.count * size, arithmetic);
      for (std::int64_t i = 0; i < stack.count; ++i) {
        const auto block = static_cast<std::size_t>(stack.first_block + i);
        Numbers numbers(cases[static_cast<std::size_t>(blocks[block].tensor)].seed + 2000 + k);
        fill(arrays[k], arithmetic, i * size, size, numbers);
      }
    }
    for (auto& array : arrays) stack.factors.push_back(array.data());
  }
}

void Table::select_present() {
  selections.clear();
  for (const kernels::Stack& stack : stacks) {
    auto& list = selections.emplace_back();
    for (std::int32_t i = 0; i < stack.count; ++i)
      if (modes[static_cast<std::size_t>(stack.first_block + i)] != kernels::Mode::absent)
        list.push_back(i);
  }
}

std::vector<kernels::Selection> Table::selected() const {
  std::vector<kernels::Selection> result;
  for (const auto& list : selections)
    result.push_back({list.data(), static_cast<std::int64_t>(list.size())});
  return result;
}

kernels::GradientPass Table::gradient_pass() {
  return {.masters = masters.data(),
          .first_moment = first_moment.data(),
          .preconditioner = {},
          .grafting = kernels::ElementwiseDirection{kernels::DirectionRule::diagonal,
                                                    grafting_moment.data()},
          .direction = direction.data(),
          .grafting_norms = grafting_norms.data()};
}

kernels::UpdatePass Table::update_pass(kernels::AveragingRule averaging) {
  return {.averaging = averaging,
          .averaging_state = momentum.data(),
          .direction = direction.data(),
          .grafting_norms = grafting_norms.data(),
          .direction_norms = direction_norms.data(),
          .masters = masters.data(),
          .segment = segment.data()};
}

kernels::TileTable Table::elements() {
  value_pointers_.clear();
  gradient_pointers_.clear();
  value_types_.clear();
  gradient_types_.clear();
  for (std::size_t t = 0; t < cases.size(); ++t) {
    value_pointers_.push_back(values[t].base());
    gradient_pointers_.push_back(cases[t].mode == kernels::Mode::absent ? nullptr
                                                                        : gradients[t].base());
    value_types_.push_back(values[t].type);
    gradient_types_.push_back(gradients[t].type);
  }
  return {arithmetic,
          tiles.data(),
          static_cast<std::int64_t>(tiles.size()),
          blocks.data(),
          static_cast<std::int64_t>(blocks.size()),
          {value_pointers_.data(), gradient_pointers_.data(), value_types_.data(),
           gradient_types_.data()},
          partials.data()};
}

std::int64_t Table::place(std::size_t b, std::int64_t element) const {
  const Extents& shape = cases[static_cast<std::size_t>(blocks[b].tensor)].shape;
  std::int64_t result = 0, stride = 1;
  for (std::size_t k = shape.size(); k-- > 0; element /= extents[b][k], stride *= shape[k])
    result += (starts[b][k] + element % extents[b][k]) * stride;
  return result;
}

double Table::value(std::size_t b, std::int64_t element) {
  return values[static_cast<std::size_t>(blocks[b].tensor)].read(place(b, element));
}
double Table::gradient(std::size_t b, std::int64_t element) {
  return gradients[static_cast<std::size_t>(blocks[b].tensor)].read(place(b, element));
}
double Table::slot(const Bytes& slot, std::int64_t flat) const {
  return read(slot.data() + static_cast<std::size_t>(flat) * size_of(arithmetic), arithmetic);
}
double Table::factor(std::size_t stack, std::size_t k, std::int64_t index, std::int64_t i,
                     std::int64_t j) {
  const std::int64_t n = stacks[stack].extent[k];
  return slot(factors[stack][k], index * n * (n + 1) + i * (n + 1) + j);
}
double Table::root(std::size_t stack, std::size_t k, std::int64_t index, std::int64_t i,
                   std::int64_t j) {
  return factor(stack, k, index, std::min(i, j), std::max(i, j) + 1);
}

}  // namespace shampoo::test
