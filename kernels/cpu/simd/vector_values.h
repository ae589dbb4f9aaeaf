// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_access.h"
#include "kernels/elementwise.h"
#include "kernels/rules/update_rule.h"

/// Values between tensors, slots and segments, on one tile each. Internal linkage: see
/// vector_access.h.
namespace shampoo::kernels {
namespace {

/// W <- W + U where that is finite
template <typename Real>
void add_to(Real* __restrict w, const Real* __restrict u, Real threshold, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) w[i] = added(w[i], u[i], threshold);
}

/// Values [first, first + count) of a tile <- U, or W + U, with U in `segment`
template <typename Real>
void apply_chunk(const Work& work, const Strided<const void*>& segment, std::int64_t first,
                 std::int64_t count) {
  alignas(64) Real received[chunk], copied[chunk];
  const Strided<void*> value = value_of(work.tensors, work.tile);
  const Real* const u = fetch(segment, 0, count, received);
  if (work.block.is_value) return write(value, first, count, u);
  const Real threshold = overflow_threshold<Real>(value.type, value.type);
  if (Real* const w = in_place<Real>(value, first, count)) return add_to(w, u, threshold, count);
  read<Real>({value.base, value.type, value.columns, value.row, value.column}, first, count,
             copied);
  add_to(copied, u, threshold, count);
  write(value, first, count, copied);
}

template <typename Real>
void apply(const Work& work, const void* segments) {
  const std::int64_t count = elements_of(work.tile);
  const Type type = work.block.wire_type;
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  const char* const segment =
      static_cast<const char*>(segments) + work.block.segment + work.tile.flat * bytes;
  for (std::int64_t first = 0; first < count; first += chunk)
    apply_chunk<Real>(work, consecutive(segment + first * bytes, type), first,
                      least(chunk, count - first));
}

/// See AccumulateRule; without a gradient W <- keep W.
template <typename Real>
void accumulate_tile(const Work& work, double keep, double add) {
  const AccumulateRule<Real> rule(keep, add);
  const Strided<void*> at = value_of(work.tensors, work.tile);
  const std::int64_t count = elements_of(work.tile);
  const bool present =
      work.tensors.gradients != nullptr && work.tensors.gradients[work.tile.tensor] != nullptr;
  alignas(64) Real w[chunk], buffer[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    if (rule.keeps)
      read<Real>({at.base, at.type, at.columns, at.row, at.column}, first, n, w);
    else
      for (std::int64_t i = 0; i < n; ++i) w[i] = 0;
    if (present) {
      const Real* const g = fetch(gradient_of(work.tensors, work.tile), first, n, buffer);
      for (std::int64_t i = 0; i < n; ++i) w[i] = rule(w[i], g[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) w[i] = rule.kept(w[i]);
    }
    write(at, first, n, w);
  }
}

template <typename Real>
void read_masters(const Work& work, float* masters) {
  const std::int64_t count = elements_of(work.tile);
  float* const to = masters + work.block.master + offset_in_block(work);
  const Strided<void*> at = value_of(work.tensors, work.tile);
  read<float>({at.base, at.type, at.columns, at.row, at.column}, 0, count, to);
}

template <typename Real>
void read_slot(const Work& work, Real* slot) {
  const Strided<void*> at = value_of(work.tensors, work.tile);
  read<Real>({at.base, at.type, at.columns, at.row, at.column}, 0, elements_of(work.tile),
             slot + work.tile.flat);
}

/// Inverse of apply() for new values.
template <typename Real>
void pack_values(const Work& work, void* segments) {
  const std::int64_t count = elements_of(work.tile);
  const Strided<void*> segment =
      consecutive(static_cast<char*>(segments) + work.block.segment, work.block.wire_type);
  const Strided<void*> value = value_of(work.tensors, work.tile);
  alignas(64) Real buffer[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    const Real* const w = fetch<Real>(
        {value.base, value.type, value.columns, value.row, value.column}, first, n, buffer);
    write(segment, offset_in_block(work) + first, n, w);
  }
}

template <typename Real>
void evaluate(const Work& work, const EvaluationPass& pass) {
  const std::int64_t count = elements_of(work.tile);
  const EvaluationRule<Real> rule(pass.extrapolations[work.tile.block]);
  const Strided<void*> segment =
      consecutive(static_cast<char*>(pass.segment) + work.block.segment, work.block.wire_type);
  alignas(64) Real copied[chunk], x[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    const Real* const w = fetch_values(work, first, n, copied);
    const Real* const z = static_cast<const Real*>(pass.iterate) + work.tile.flat + first;
    for (std::int64_t i = 0; i < n; ++i) x[i] = rule(w[i], z[i]);
    write(segment, offset_in_block(work) + first, n, x);
  }
}

}  // namespace
}  // namespace shampoo::kernels
