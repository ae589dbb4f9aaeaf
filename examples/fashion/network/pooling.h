// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace fashion {

/// ReLU, then the largest of each 2 x 2 square, on square maps with the channels of a pixel side
/// by side.
struct Pooling {
  std::int64_t side;  ///< pixels along each side, even
  std::int64_t channels;

  constexpr std::int64_t pooled_side() const { return side / 2; }
  constexpr std::int64_t pooled_size() const { return pooled_side() * pooled_side() * channels; }
};

/// Maps inside a larger array: pixel (y, x) starts at data + y * pitch + x * channels.
template <typename Scalar>
struct Maps {
  Scalar* data;
  std::int64_t pitch;
};

/// The winner of a square in which no pixel is positive.
inline constexpr std::int32_t no_winner = 4;

/// pooled <- max(0, largest of each square); winner tells which of its four pixels that is.
template <typename Scalar>
void pool(Pooling p, const Scalar* maps, Maps<Scalar> pooled, std::int32_t* winner) {
  const std::int64_t below = p.side * p.channels;
  for (std::int64_t y = 0; y < p.pooled_side(); ++y)
    for (std::int64_t x = 0; x < p.pooled_side(); ++x, winner += p.channels) {
      const Scalar* square = maps + 2 * y * below + 2 * x * p.channels;
      Scalar* to = pooled.data + y * pooled.pitch + x * p.channels;
      for (std::int64_t k = 0; k < p.channels; ++k) {
        const Scalar a = square[k], b = square[k + p.channels];
        const Scalar c = square[k + below], d = square[k + below + p.channels];
        const Scalar largest = std::max({Scalar{0}, a, b, c, d});
        to[k] = largest;
        std::int32_t which = 3;
        which = c == largest ? 2 : which;
        which = b == largest ? 1 : which;
        which = a == largest ? 0 : which;
        winner[k] = largest > 0 ? which : no_winner;
      }
    }
}

/// Hands each pooled gradient to its winner, zero to the other pixels, and adds it to the sum of
/// its channel, which is the gradient of the bias below.
template <typename Scalar>
void unpool(Pooling p, Maps<const Scalar> pooled_gradient, const std::int32_t* winner,
            Scalar* maps_gradient, Scalar* channel_sum) {
  const std::int64_t below = p.side * p.channels;
  for (std::int64_t y = 0; y < p.pooled_side(); ++y)
    for (std::int64_t x = 0; x < p.pooled_side(); ++x, winner += p.channels) {
      const Scalar* from = pooled_gradient.data + y * pooled_gradient.pitch + x * p.channels;
      Scalar* square = maps_gradient + 2 * y * below + 2 * x * p.channels;
      for (int i = 0; i < 4; ++i) {
        Scalar* to = square + (i / 2) * below + (i % 2) * p.channels;
        for (std::int64_t k = 0; k < p.channels; ++k) {
          const Scalar gradient = from[k];
          to[k] = winner[k] == i ? gradient : Scalar{0};
        }
      }
      for (std::int64_t k = 0; k < p.channels; ++k) {
        const Scalar gradient = from[k];
        channel_sum[k] += winner[k] == no_winner ? Scalar{0} : gradient;
      }
    }
}

}  // namespace fashion
