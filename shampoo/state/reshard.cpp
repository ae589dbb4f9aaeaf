// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/reshard.h"

#include <algorithm>
#include <cstring>

namespace shampoo {

namespace {

/// Elements that follow each other in the tensor.
struct Run {
  std::int64_t length = 0;
  std::int64_t offset = -1;  ///< of the first in the part; -1: they are not in it
};

/// What a part has of the elements from `index` on, as far as that is the same for all of them.
Run run_at(const Part& part, std::int64_t index) {
  const std::size_t order = part.shape.size();
  if (order == 0) return {1, 0};
  bool inside = true;
  std::int64_t offset = 0, stride = 1, length = 0;
  for (std::size_t k = order; k-- > 0; index /= part.shape[k]) {
    const std::int64_t at = index % part.shape[k] - part.box.offset[k];
    const std::int64_t extent = part.box.extent[k];
    inside = inside && at >= 0 && at < extent;
    if (k == order - 1) {
      const std::int64_t rest = part.shape[k] - part.box.offset[k] - at;
      length = at < 0 ? -at : at < extent ? extent - at : rest;
    }
    offset += at * stride;
    stride *= extent;
  }
  return {length, inside ? offset : -1};
}

/// Index in the tensor of a part's element.
std::int64_t index_of(const Part& part, std::int64_t offset) {
  std::int64_t index = 0, stride = 1;
  for (std::size_t k = part.shape.size(); k-- > 0; offset /= part.box.extent[k]) {
    index += (part.box.offset[k] + offset % part.box.extent[k]) * stride;
    stride *= part.shape[k];
  }
  return index;
}

bool put(Assembly& assembly, const std::byte* from, std::int64_t offset, std::int64_t length,
         std::size_t size) {
  const auto count = static_cast<std::size_t>(length);
  if (!assembly.filled.empty()) {
    char* const first = assembly.filled.data() + offset;
    if (std::memchr(first, 1, count)) return false;
    std::memset(first, 1, count);
  }
  assembly.missing -= length;
  std::memcpy(assembly.bytes + static_cast<std::size_t>(offset) * size, from, count * size);
  return true;
}

}  // namespace

bool may_overlap(const Part& a, const Part& b) {
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

bool copy_stretch(const Part& from, const Stretch& stretch, const Part& to, Assembly& assembly,
                  std::size_t size) {
  if (stretch.count == 0 || assembly.count == 0) return true;
  if (from.shape == to.shape && from.box == to.box)
    return put(assembly, stretch.bytes, stretch.first, stretch.count, size);

  const std::int64_t end = stretch.first + stretch.count;
  if (index_of(from, end - 1) < index_of(to, 0) ||
      index_of(to, assembly.count - 1) < index_of(from, stretch.first))
    return true;
  const std::int64_t row = from.shape.empty() ? 1 : from.box.extent.back();
  for (std::int64_t at = stretch.first; at < end;) {
    const std::int64_t row_end = std::min(end, at - at % row + row);
    for (std::int64_t index = index_of(from, at); at < row_end;) {
      const Run run = run_at(to, index);
      const std::int64_t length = std::min(run.length, row_end - at);
      const std::byte* const source =
          stretch.bytes + static_cast<std::size_t>(at - stretch.first) * size;
      if (run.offset >= 0 && !put(assembly, source, run.offset, length, size)) return false;
      at += length;
      index += length;
    }
  }
  return true;
}

bool copy_common(const Part& from, const std::byte* bytes, const Part& to, Assembly& assembly,
                 std::size_t size) {
  return copy_stretch(from, {0, grouping::numel(from.box.extent), bytes}, to, assembly, size);
}

}  // namespace shampoo
