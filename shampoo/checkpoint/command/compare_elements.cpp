// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/compare_elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "shampoo/checkpoint/command/element.h"
#include "shampoo/checkpoint/command/piece_window.h"
#include "shampoo/checkpoint/format/tensor_entry.h"

namespace shampoo::checkpoint::command {
namespace {

using grouping::Box;

/// Empty where the boxes share no element.
std::optional<Box> common_part(const Box& a, const Box& b) {
  Box common;
  for (std::size_t side = 0; side < a.offset.size(); ++side) {
    const std::int64_t begin = std::max(a.offset[side], b.offset[side]);
    const std::int64_t end =
        std::min(a.offset[side] + a.extent[side], b.offset[side] + b.extent[side]);
    if (begin >= end) return std::nullopt;
    common.offset.push_back(begin);
    common.extent.push_back(end - begin);
  }
  return common;
}

/// Of the first element of `part`, in elements from the begin of `box`, plus `at`.
std::uint64_t place_in(const Box& box, const Box& part, const std::vector<std::int64_t>& at) {
  std::uint64_t place = 0;
  for (std::size_t side = 0; side < box.offset.size(); ++side)
    place = place * static_cast<std::uint64_t>(box.extent[side]) +
            static_cast<std::uint64_t>(part.offset[side] - box.offset[side] + at[side]);
  return place;
}

/// How many of the first sides do not belong to a run: a part of both boxes without a gap.
std::size_t sides_outside_of_runs(const Box& a, const Box& b, const Box& part) {
  std::size_t side = part.extent.size();
  while (side > 0) {
    --side;
    if (part.extent[side] != a.extent[side] || part.extent[side] != b.extent[side]) break;
  }
  return side;
}

/// Counts `at` up over the first sides of the part. False at the end.
bool next(std::vector<std::int64_t>& at, const Box& part, std::size_t sides) {
  while (sides-- > 0) {
    if (++at[sides] < part.extent[sides]) return true;
    at[sides] = 0;
  }
  return false;
}

void widen(ElementDifference& difference, double a, double b) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double absolute = std::abs(a - b);
  double relative = absolute / std::max(std::abs(a), std::abs(b));
  if (std::isnan(a) != std::isnan(b) || std::isinf(a) || std::isinf(b)) {
    absolute = relative = infinity;
  } else if (std::isnan(a) || absolute == 0) {
    absolute = relative = 0;
  }
  difference.absolute = std::max(difference.absolute.value_or(0), absolute);
  difference.relative = std::max(difference.relative.value_or(0), relative);
}

}  // namespace

class ElementComparison::Windows {
 public:
  Windows(const Reader& a, const Reader& b) : a_(a), b_(b) {}

  void begin(const SavedTensor& tensor) {
    dtype_ = tensor.dtype;
    size_ = static_cast<std::size_t>(bits_of(tensor.dtype)) / 8;
    difference_ = {};
  }

  /// Compares what two pieces share.
  void compare(const SavedPiece& a, const SavedPiece& b, const Box& part) {
    a_.look_at(a, *bytes_of(dtype_, a.box.extent));
    b_.look_at(b, *bytes_of(dtype_, b.box.extent));
    const std::size_t outside = sides_outside_of_runs(a.box, b.box, part);
    std::uint64_t run = 1;
    for (std::size_t side = outside; side < part.extent.size(); ++side)
      run *= static_cast<std::uint64_t>(part.extent[side]);
    std::vector<std::int64_t> at(part.extent.size());
    do {
      compare_run(place_in(a.box, part, at), place_in(b.box, part, at), run, part, at);
    } while (next(at, part, outside));
  }

  const ElementDifference& difference() const { return difference_; }

 private:
  void compare_run(std::uint64_t in_a, std::uint64_t in_b, std::uint64_t run, const Box& part,
                   const std::vector<std::int64_t>& at) {
    const std::uint64_t at_once = PieceWindow::most / size_;
    for (std::uint64_t done = 0; done < run; done += at_once) {
      const std::size_t count = std::min(at_once, run - done);
      const auto a = a_.at((in_a + done) * size_, count * size_);
      const auto b = b_.at((in_b + done) * size_, count * size_);
      if (std::memcmp(a.data(), b.data(), a.size()) == 0) continue;
      for (std::size_t i = 0; i < count; ++i) {
        const auto left = a.subspan(i * size_, size_), right = b.subspan(i * size_, size_);
        if (std::memcmp(left.data(), right.data(), size_) != 0)
          note(left, right, part, at, done + i);
      }
    }
  }

  void note(std::span<const std::byte> a, std::span<const std::byte> b, const Box& part,
            const std::vector<std::int64_t>& at, std::uint64_t in_run) {
    ++difference_.count;
    if (is_floating(dtype_)) widen(difference_, value_of(dtype_, a), value_of(dtype_, b));
    std::vector<std::int64_t> index = at;
    for (std::size_t side = index.size(); side-- > 0 && in_run > 0;) {
      const auto extent = static_cast<std::uint64_t>(part.extent[side]);
      index[side] += static_cast<std::int64_t>(in_run % extent);
      in_run /= extent;
    }
    for (std::size_t side = 0; side < index.size(); ++side) index[side] += part.offset[side];
    if (difference_.count > 1 && index >= difference_.index) return;
    difference_.index = std::move(index);
    difference_.in_a = element_text(dtype_, a);
    difference_.in_b = element_text(dtype_, b);
  }

  PieceWindow a_, b_;
  Dtype dtype_ = Dtype::f32;
  std::size_t size_ = 0;  ///< of an element
  ElementDifference difference_;
};

ElementComparison::ElementComparison(const Reader& a, const Reader& b)
    : windows_(std::make_unique<Windows>(a, b)) {}
ElementComparison::~ElementComparison() = default;

std::optional<ElementDifference> ElementComparison::compare(const SavedTensor& a,
                                                            const SavedTensor& b) {
  const auto bytes = bytes_of(a.dtype, a.shape);
  if (!bytes || *bytes == 0) return std::nullopt;
  std::map<Box, const SavedPiece*> pieces;
  for (const SavedPiece& piece : b.pieces) pieces.emplace(piece.box, &piece);

  const bool without_address = bits_of(a.dtype) % 8 != 0;
  windows_->begin(a);
  for (const SavedPiece& piece : a.pieces) {
    const auto same = pieces.find(piece.box);
    if (without_address) {
      if (same == pieces.end() || same->second->checksum != piece.checksum)
        return ElementDifference{};
    } else if (same != pieces.end()) {
      if (*bytes_of(a.dtype, piece.box.extent) > 0)
        windows_->compare(piece, *same->second, piece.box);
    } else {
      for (const SavedPiece& other : b.pieces)
        if (const auto part = common_part(piece.box, other.box))
          windows_->compare(piece, other, *part);
    }
  }
  if (windows_->difference().count == 0) return std::nullopt;
  return windows_->difference();
}

}  // namespace shampoo::checkpoint::command
