// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_kernels.h"
#include "kernels/rules/gradient_rule.h"
#include "kernels/rules/stored.h"

/// Reading and writing elements of tiles, a chunk at a time. Vector kernels have internal linkage:
/// each level of the instruction set must keep its own compiled copy.
namespace shampoo::kernels {
namespace {

/// Elements that are worked on at a time: about ten arrays of them stay in the first-level cache,
/// with room for what is read ahead. A multiple of 32: see ProductSum.
constexpr std::int64_t chunk = 256;

inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

inline std::int64_t elements_of(const Tile& tile) {
  return static_cast<std::int64_t>(tile.rows) * tile.columns;
}

/// First element of a tile within its block.
inline std::int64_t offset_in_block(const Work& work) { return work.tile.flat - work.block.flat; }

/// Elements of one tile in a tensor of the caller.
template <typename Pointer>
struct Strided {
  Pointer base;
  Type type;
  std::int64_t columns, row, column;
};

inline Strided<const void*> gradient_of(const Tensors& tensors, const Tile& tile) {
  const Type type = tensors.gradient_types[tile.tensor];
  const char* const base = static_cast<const char*>(tensors.gradients[tile.tensor]);
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  return {base + tile.gradient * bytes, type, tile.columns, tile.gradient_row,
          tile.gradient_column};
}

inline Strided<void*> value_of(const Tensors& tensors, const Tile& tile) {
  const Type type = tensors.value_types[tile.tensor];
  char* const base = static_cast<char*>(tensors.values[tile.tensor]);
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  return {base + tile.value * bytes, type, tile.columns, tile.value_row, tile.value_column};
}

/// body(pointer to elements, stride, how many, where they stand in the chunk) for every run of
/// elements [first, first + count) with one stride.
template <typename Element, typename Place, typename Body>
inline void for_each_run(Element* base, const Place& at, std::int64_t first, std::int64_t count,
                         Body body) {
  if (at.column == 1 && at.row == at.columns) return body(base + first, 1, count, 0);
  std::int64_t row = first / at.columns, column = first % at.columns;
  for (std::int64_t done = 0; done < count; ++row, column = 0) {
    const std::int64_t n = least(at.columns - column, count - done);
    body(base + row * at.row + column * at.column, at.column, n, done);
    done += n;
  }
}

template <typename Real, typename Stored>
inline void read_run(const Stored* from, std::int64_t stride, std::int64_t count,
                     Real* __restrict to) {
  if (stride == 1)
    for (std::int64_t i = 0; i < count; ++i) to[i] = real<Real>(from[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = real<Real>(from[i * stride]);
}

template <typename Real, typename Stored>
inline void write_run(const Real* __restrict from, std::int64_t count, Stored* to,
                      std::int64_t stride) {
  if (stride == 1)
    for (std::int64_t i = 0; i < count; ++i) to[i] = stored<Stored>(from[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = stored<Stored>(from[i]);
}

template <typename Real>
inline void read(const Strided<const void*>& at, std::int64_t first, std::int64_t count, Real* to) {
  with_type(at.type, [&](auto* tag) {
    using Stored = std::remove_pointer_t<decltype(tag)>;
    for_each_run(static_cast<const Stored*>(at.base), at, first, count,
                 [&](const Stored* from, std::int64_t stride, std::int64_t n, std::int64_t done) {
                   read_run(from, stride, n, to + done);
                 });
  });
}

template <typename Real>
inline void write(const Strided<void*>& at, std::int64_t first, std::int64_t count,
                  const Real* from) {
  with_type(at.type, [&](auto* tag) {
    using Stored = std::remove_pointer_t<decltype(tag)>;
    for_each_run(static_cast<Stored*>(at.base), at, first, count,
                 [&](Stored* to, std::int64_t stride, std::int64_t n, std::int64_t done) {
                   write_run(from + done, n, to, stride);
                 });
  });
}

/// Address of elements [first, first + count) if they lie back to back in the arithmetic type, or
/// null.
template <typename Real>
inline Real* in_place(const Strided<void*>& at, std::int64_t first, std::int64_t count) {
  constexpr Type type = sizeof(Real) == sizeof(float) ? Type::float32 : Type::float64;
  if (at.type != type || at.column != 1) return nullptr;
  Real* const base = static_cast<Real*>(at.base);
  if (at.row == at.columns) return base + first;
  const std::int64_t row = first / at.columns, column = first % at.columns;
  return column + count <= at.columns ? base + row * at.row + column : nullptr;
}

/// The elements in place, or else copied into `buffer`.
template <typename Real>
inline const Real* fetch(const Strided<const void*>& at, std::int64_t first, std::int64_t count,
                         Real* buffer) {
  const Real* const found = in_place<Real>(
      {const_cast<void*>(at.base), at.type, at.columns, at.row, at.column}, first, count);
  if (found != nullptr) return found;
  read(at, first, count, buffer);
  return buffer;
}

/// Consecutive elements of some type.
inline Strided<const void*> consecutive(const void* base, Type type) {
  return {base, type, 1, 1, 1};
}
inline Strided<void*> consecutive(void* base, Type type) { return {base, type, 1, 1, 1}; }

/// W, from the master where there is one.
template <typename Real>
inline const Real* fetch_values(const Work& work, std::int64_t first, std::int64_t count,
                                Real* buffer) {
  if (work.masters != nullptr && work.block.master >= 0) {
    const std::int64_t at = work.block.master + offset_in_block(work) + first;
    return fetch<Real>(consecutive(work.masters + at, Type::float32), 0, count, buffer);
  }
  const Strided<void*> at = value_of(work.tensors, work.tile);
  return fetch<Real>({at.base, at.type, at.columns, at.row, at.column}, first, count, buffer);
}

/// G, in place or in `buffer`
template <typename Real>
inline const Real* fetch_gradient(const Work& work, std::int64_t first, std::int64_t count,
                                  Real* __restrict buffer) {
  const GradientRule<Real> rule(work.gradient_scale, work.gradient_limit, work.coefficients);
  const Real* const g = fetch(gradient_of(work.tensors, work.tile), first, count, buffer);
  if (!rule.scales && !rule.decays) return g;

  for (std::int64_t i = 0; i < count; ++i) buffer[i] = rule.scaled(g[i]);
  if (!rule.decays) return buffer;

  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i) buffer[i] = rule.decayed(buffer[i], w[i]);
  return buffer;
}

}  // namespace
}  // namespace shampoo::kernels
