// SPDX-License-Identifier: Apache-2.0
#include "shampoo/recut.h"

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
  char* const first = assembly.filled.data() + offset;
  const auto count = static_cast<std::size_t>(length);
  if (std::memchr(first, 1, count)) return false;
  std::memset(first, 1, count);
  assembly.missing -= length;
  std::memcpy(assembly.bytes + static_cast<std::size_t>(offset) * size, from, count * size);
  return true;
}

}  // namespace

bool copy_common(const Part& from, const std::byte* bytes, const Part& to, Assembly& assembly,
                 std::size_t size) {
  const std::int64_t count = grouping::numel(from.box.extent);
  if (count == 0 || assembly.filled.empty()) return true;
  if (from.shape == to.shape && from.box == to.box) return put(assembly, bytes, 0, count, size);

  const auto to_count = static_cast<std::int64_t>(assembly.filled.size());
  if (index_of(from, count - 1) < index_of(to, 0) || index_of(to, to_count - 1) < index_of(from, 0))
    return true;
  const std::int64_t row = from.shape.empty() ? 1 : from.box.extent.back();
  for (std::int64_t first = 0; first < count; first += row) {
    const std::int64_t index = index_of(from, first);
    for (std::int64_t done = 0; done < row;) {
      const Run run = run_at(to, index + done);
      const std::int64_t length = std::min(run.length, row - done);
      const std::byte* const source = bytes + static_cast<std::size_t>(first + done) * size;
      if (run.offset >= 0 && !put(assembly, source, run.offset, length, size)) return false;
      done += length;
    }
  }
  return true;
}

}  // namespace shampoo
