// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/reshard.h"

#include <algorithm>
#include <cstring>

namespace shampoo {

namespace {

/// Consecutive elements of the tensor, all inside or all outside a slice.
struct Overlap {
  std::int64_t length = 0;
  std::int64_t offset = -1;  ///< of the first in the slice; -1: outside
};

/// Elements from `index` on, within one row, that are all inside or all outside the slice.
Overlap overlap_at(const TensorSlice& slice, std::int64_t index) {
  const std::size_t order = slice.shape.size();
  if (order == 0) return {1, 0};
  bool inside = true;
  std::int64_t offset = 0, stride = 1, length = 0;
  for (std::size_t k = order; k-- > 0; index /= slice.shape[k]) {
    const std::int64_t at = index % slice.shape[k] - slice.box.offset[k];
    const std::int64_t extent = slice.box.extent[k];
    inside = inside && at >= 0 && at < extent;
    if (k == order - 1) {
      const std::int64_t rest = slice.shape[k] - slice.box.offset[k] - at;
      length = at < 0 ? -at : at < extent ? extent - at : rest;
    }
    offset += at * stride;
    stride *= extent;
  }
  return {length, inside ? offset : -1};
}

/// Row-major index in the tensor of the slice's element at `offset`.
std::int64_t index_of(const TensorSlice& slice, std::int64_t offset) {
  std::int64_t index = 0, stride = 1;
  for (std::size_t k = slice.shape.size(); k-- > 0; offset /= slice.box.extent[k]) {
    index += (slice.box.offset[k] + offset % slice.box.extent[k]) * stride;
    stride *= slice.shape[k];
  }
  return index;
}

bool copy_into(SliceBuffer& buffer, const std::byte* from, std::int64_t offset, std::int64_t length,
               std::size_t size) {
  const auto count = static_cast<std::size_t>(length);
  if (!buffer.filled.empty()) {
    char* const first = buffer.filled.data() + offset;
    if (std::memchr(first, 1, count)) return false;
    std::memset(first, 1, count);
  }
  buffer.missing -= length;
  std::memcpy(buffer.bytes + static_cast<std::size_t>(offset) * size, from, count * size);
  return true;
}

}  // namespace

bool may_overlap(const TensorSlice& a, const TensorSlice& b) {
  const std::int64_t a_count = grouping::numel(a.box.extent);
  const std::int64_t b_count = grouping::numel(b.box.extent);
  if (a_count == 0 || b_count == 0) return false;
  if (a.shape != b.shape)
    return index_of(a, a_count - 1) >= index_of(b, 0) && index_of(b, b_count - 1) >= index_of(a, 0);
  for (std::size_t k = 0; k < a.shape.size(); ++k)
    if (a.box.offset[k] >= b.box.offset[k] + b.box.extent[k] ||
        b.box.offset[k] >= a.box.offset[k] + a.box.extent[k])
      return false;
  return true;
}

bool copy_run(const TensorSlice& from, const ElementRun& run, const TensorSlice& to,
              SliceBuffer& buffer, std::size_t size) {
  if (run.count == 0 || buffer.count == 0) return true;
  if (from.shape == to.shape && from.box == to.box)
    return copy_into(buffer, run.bytes, run.first, run.count, size);

  const std::int64_t end = run.first + run.count;
  if (index_of(from, end - 1) < index_of(to, 0) ||
      index_of(to, buffer.count - 1) < index_of(from, run.first))
    return true;
  const std::int64_t row = from.shape.empty() ? 1 : from.box.extent.back();
  for (std::int64_t at = run.first; at < end;) {
    const std::int64_t row_end = std::min(end, at - at % row + row);
    for (std::int64_t index = index_of(from, at); at < row_end;) {
      const Overlap overlap = overlap_at(to, index);
      const std::int64_t length = std::min(overlap.length, row_end - at);
      const std::byte* const source = run.bytes + static_cast<std::size_t>(at - run.first) * size;
      if (overlap.offset >= 0 && !copy_into(buffer, source, overlap.offset, length, size))
        return false;
      at += length;
      index += length;
    }
  }
  return true;
}

bool copy_common(const TensorSlice& from, const std::byte* bytes, const TensorSlice& to,
                 SliceBuffer& buffer, std::size_t size) {
  return copy_run(from, {0, grouping::numel(from.box.extent), bytes}, to, buffer, size);
}

}  // namespace shampoo
