// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/views.h"

namespace shampoo::kernels {

struct MatrixShape {
  int rows, columns;

  explicit MatrixShape(const Stack& stack)
      : rows(static_cast<int>(stack.extent[0])), columns(static_cast<int>(stack.extent[1])) {}

  int side() const { return std::min(rows, columns); }
  int longer() const { return std::max(rows, columns); }
  bool wide() const { return rows <= columns; }
  std::int64_t elements() const { return std::int64_t{rows} * columns; }
  std::int64_t square() const { return std::int64_t{side()} * side(); }
};

/// `count` columns of a wide matrix from `first` on, or rows of a tall one. In memory of its own a
/// panel is row-major without gaps.
struct Panel {
  int first, count;
};

/// Of a panel: the short side is multiplied often enough to hide that Q is read anew.
constexpr int longest_panel = 512;

template <typename Body>
void for_each_panel(const MatrixShape& shape, const Body& body) {
  for (int first = 0; first < shape.longer(); first += longest_panel)
    body(Panel{first, std::min(longest_panel, shape.longer() - first)});
}

/// Elements of the longest panel.
inline std::int64_t panel_elements(const MatrixShape& shape) {
  return std::int64_t{shape.side()} * std::min(shape.longer(), longest_panel);
}

/// body(first element in the matrix, first one in the panel, how many follow both)
template <typename Body>
void for_each_span(const MatrixShape& shape, const Panel& panel, const Body& body) {
  const std::int64_t n = shape.columns, count = panel.count;
  if (!shape.wide()) return body(panel.first * n, std::int64_t{0}, count * n);
  if (count == n) return body(std::int64_t{0}, std::int64_t{0}, shape.elements());
  for (std::int64_t i = 0; i < shape.rows; ++i) body(i * n + panel.first, i * count, count);
}

/// `to` <- a panel of a matrix
template <typename Real>
void copy_panel(const MatrixShape& shape, const Panel& panel, const Real* matrix, Real* to) {
  for_each_span(shape, panel, [&](std::int64_t from, std::int64_t at, std::int64_t count) {
    std::copy_n(matrix + from, count, to + at);
  });
}

}  // namespace shampoo::kernels
