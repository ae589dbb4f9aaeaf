// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "examples/fashion/network/gemm.h"

namespace fashion {

/// A "same" convolution with a 5 x 5 window on square images. An image is stored pixel by pixel
/// with the channels of a pixel side by side; the weights as (out, 5, 5, in).
struct Convolution {
  static constexpr std::int64_t window = 5;
  static constexpr std::int64_t border = window / 2;

  std::int64_t side;  ///< pixels along each side of an image
  std::int64_t in;    ///< channels
  std::int64_t out;   ///< channels

  constexpr std::int64_t pixels() const { return side * side; }
  constexpr std::int64_t padded_side() const { return side + 2 * border; }
  constexpr std::int64_t padded_size() const { return padded_side() * padded_side() * in; }
  constexpr std::int64_t row() const { return window * in; }
  constexpr std::int64_t rows_size() const { return padded_side() * side * row(); }
  constexpr std::int64_t weight_size() const { return out * window * row(); }
  constexpr std::int64_t output_size() const { return pixels() * out; }
};

/// Copies the five horizontal neighbours of every pixel: rows(y, x) <- padded(y, x ... x + 4).
/// With them a convolution is one product for each of the five lines of the window.
template <typename Scalar>
void unfold(Convolution c, const Scalar* padded, Scalar* rows) {
  for (std::int64_t y = 0; y < c.padded_side(); ++y)
    for (std::int64_t x = 0; x < c.side; ++x, rows += c.row())
      std::copy_n(padded + (y * c.padded_side() + x) * c.in, c.row(), rows);
}

/// The transpose of unfold: padded(y, x) <- sum over j of rows(y, x - j)(j)
template <typename Scalar>
void fold(Convolution c, const Scalar* rows, Scalar* padded) {
  std::fill_n(padded, c.padded_size(), Scalar{0});
  for (std::int64_t y = 0; y < c.padded_side(); ++y)
    for (std::int64_t x = 0; x < c.side; ++x, rows += c.row()) {
      Scalar* to = padded + (y * c.padded_side() + x) * c.in;
      for (std::int64_t j = 0; j < c.row(); ++j) to[j] += rows[j];
    }
}

/// The lines of rows and of weights that line i of the window multiplies.
template <typename Scalar>
Matrix<Scalar> rows_line(Convolution c, Scalar* rows, std::int64_t i) {
  return {rows + i * c.side * c.row(), c.row()};
}
template <typename Scalar>
Matrix<Scalar> weight_line(Convolution c, Scalar* weight, std::int64_t i) {
  return {weight + i * c.row(), Convolution::window * c.row()};
}

/// output(y, x) <- bias + sum over i of weight(i) rows(y + i, x)
template <typename Scalar>
void convolve(Convolution c, const Scalar* rows, const Scalar* weight, const Scalar* bias,
              Scalar* output) {
  for (std::int64_t p = 0; p < c.pixels(); ++p) std::copy_n(bias, c.out, output + p * c.out);
  for (std::int64_t i = 0; i < Convolution::window; ++i)
    multiply(rows_line(c, rows, i), Op::plain, weight_line(c, weight, i), Op::transposed,
             {output, c.out}, c.pixels(), c.out, c.row(), Into::add);
}

/// weight_gradient(i) <- weight_gradient(i) + sum over y, x of output_gradient(y, x) rows(y + i,
/// x)^T
template <typename Scalar>
void add_weight_gradient(Convolution c, const Scalar* rows, const Scalar* output_gradient,
                         Scalar* weight_gradient) {
  for (std::int64_t i = 0; i < Convolution::window; ++i)
    multiply({output_gradient, c.out}, Op::transposed, rows_line(c, rows, i), Op::plain,
             weight_line(c, weight_gradient, i), c.out, c.row(), c.pixels(), Into::add);
}

/// rows_gradient(y, x) <- sum over i of weight(i)^T output_gradient(y - i, x)
template <typename Scalar>
void find_rows_gradient(Convolution c, const Scalar* output_gradient, const Scalar* weight,
                        Scalar* rows_gradient) {
  std::fill_n(rows_gradient, c.rows_size(), Scalar{0});
  for (std::int64_t i = 0; i < Convolution::window; ++i)
    multiply({output_gradient, c.out}, Op::plain, weight_line(c, weight, i), Op::plain,
             rows_line(c, rows_gradient, i), c.pixels(), c.row(), c.out, Into::add);
}

}  // namespace fashion
