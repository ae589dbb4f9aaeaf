// SPDX-License-Identifier: Apache-2.0
#include "grouping/segments.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace shampoo::grouping {
namespace {

__extension__ using Wide = __int128;

/// Offsets stay under this, so that rounding up cannot overflow.
constexpr std::int64_t largest_offset = std::int64_t{1} << 62;

std::int64_t round_up(std::int64_t offset, std::int64_t unit) {
  const std::int64_t rest = offset % unit;
  return rest == 0 ? offset : offset - rest + unit;
}

/// Where a block of these values starts at or after `offset`; moves `offset` behind it.
std::int64_t reserve(std::int64_t& offset, const PlannedParameter& parameter,
                     std::int64_t elements) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, parameter.element_bytes, &bytes) ||
      parameter.element_bytes > largest_offset || bytes > largest_offset - offset)
    throw std::invalid_argument("parameter '" + parameter.name +
                                "': the exchange must have at most 2^62 bytes");
  const std::int64_t start = round_up(offset, block_alignment);
  offset = start + bytes;
  return start;
}

void make_equally_long(const Plan& plan, Segments& layout) {
  const std::int64_t longest = layout.longest(), all = layout.begins.back();
  const Wide padded = Wide{longest} * plan.ranks;
  if (padded > largest_offset || 100 * padded > (Wide{100} + usual_padding_percent) * all) return;
  for (std::size_t v = 0; v < plan.blocks.size(); ++v)
    for (std::size_t b = 0; b < plan.blocks[v].size(); ++b) {
      const int owner = plan.blocks[v][b].owner;
      layout.blocks[v][b] += owner * longest - layout.begins[owner];
    }
  for (int r = 0; r <= plan.ranks; ++r) layout.begins[r] = r * longest;
  layout.padding = layout.begins.back() - all;
}

}  // namespace

std::int64_t Segments::longest() const {
  std::int64_t longest = 0;
  for (std::size_t r = 1; r < begins.size(); ++r)
    longest = std::max(longest, begins[r] - begins[r - 1]);
  return longest;
}

Segments segments(const Plan& plan, std::int64_t header_bytes) {
  if (header_bytes < 0 || header_bytes > largest_offset / plan.ranks)
    throw std::invalid_argument("header_bytes must be at least 0 and at most 2^62 / ranks, got " +
                                std::to_string(header_bytes));
  std::vector<std::vector<std::vector<Stack>>> all;
  Segments layout;
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v) {
    all.push_back(stacks(plan, v));
    layout.blocks.emplace_back(plan.blocks[v].size());
  }

  std::int64_t offset = 0;
  for (int r = 0; r < plan.ranks; ++r) {
    layout.begins.push_back(offset);
    offset += header_bytes;
    for (std::size_t v = 0; v < all.size(); ++v)
      for (const Stack& stack : all[v][r])
        for (int b : stack.blocks)
          layout.blocks[v][b] = reserve(
              offset, plan.parameter(static_cast<int>(v), plan.blocks[v][b]), numel(stack.extent));
    offset = round_up(offset, segment_alignment);
  }
  layout.begins.push_back(offset);
  make_equally_long(plan, layout);
  return layout;
}

}  // namespace shampoo::grouping
