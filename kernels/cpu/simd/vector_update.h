// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_average.h"
#include "kernels/cpu/simd/vector_elements.h"
#include "kernels/cpu/simd/vector_values.h"
#include "kernels/rules/grafting.h"
#include "kernels/rules/update_rule.h"

/// The end of a step, on one tile each. Internal linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

/// P <- ratio P + decay W, and on to U = step P unless P is averaged first
template <typename Real>
void scale_and_decay(const Work& work, UpdateRule<Real> rule, const Real* __restrict direction,
                     std::int64_t first, std::int64_t count, Real* __restrict p) {
  if (rule.averages) rule.step = 1;  // exact
  if (!rule.decays) {
    for (std::int64_t i = 0; i < count; ++i) p[i] = rule.stepped(rule.scaled(direction[i]));
    return;
  }
  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i)
    p[i] = rule.stepped(rule.decayed(rule.scaled(direction[i]), w[i]));
}

/// B and U
template <typename Real>
void average(const UpdateRule<Real> rule, std::int64_t count, Real* __restrict b,
             Real* __restrict p) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Real accumulated = rule.accumulated(b[i], p[i]);
    p[i] = rule.stepped(rule.averaged(accumulated, p[i]));
    b[i] = rule.kept(accumulated, b[i]);
  }
}

/// Z and U, of the step P
template <typename Real>
void average_iterate(const Work& work, std::int64_t first, std::int64_t count, Real* __restrict z,
                     Real* __restrict p) {
  const IterateRule<Real> rule(work.coefficients);
  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i) {
    const Real decayed = rule.decayed(z[i]);
    z[i] = added(decayed, p[i], static_cast<Real>(INFINITY));
    p[i] = rule.update(p[i], decayed, w[i]);
  }
}

/// P <- W + P where that is finite, else W
template <typename Real>
void add_values(const Work& work, Real threshold, std::int64_t first, std::int64_t count,
                Real* __restrict p) {
  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i) p[i] = added(w[i], p[i], threshold);
}

/// update() of one tile, a chunk at a time.
template <typename Real>
class TileUpdate {
 public:
  TileUpdate(const Work& work, const UpdatePass& pass)
      : work_(work),
        block_(work.block),
        rule_(work.coefficients,
              direction_factors(pass, work.mode, work.coefficients, work.block.elements,
                                work.tile.block),
              pass.averaging),
        takes_step_(takes_step<Real>(pass, work.mode, work.tile.block)),
        threshold_(
            overflow_threshold<Real>(block_.wire_type, work.tensors.value_types[work.tile.tensor])),
        average_(static_cast<Real*>(pass.averaging_state)),
        master_(static_cast<float*>(pass.masters)) {
    const std::int64_t at = offset_in_block(work);
    if (average_ != nullptr) average_ += work.tile.flat;
    if (block_.master >= 0) master_ += block_.master + at;
    if (pass.segment != nullptr)
      segment_ = static_cast<char*>(pass.segment) + block_.segment + at * bytes();
  }

  /// `direction` is P of elements [first, first + count).
  void operator()(std::int64_t first, std::int64_t count, const Real* direction) const {
    if (!takes_step_) return keep(first, count);
    if (segment_ != nullptr)
      return send(first, count, direction,
                  consecutive(segment_ + first * bytes(), block_.wire_type));

    alignas(64) char sent[chunk * sizeof(double)];
    send(first, count, direction, consecutive(sent, block_.wire_type));
    const Strided<const void*> received =
        consecutive(static_cast<const void*>(sent), block_.wire_type);
    if (moves_in_double(block_.wire_type, work_.tensors.value_types[work_.tile.tensor]))
      apply_chunk<double>(work_, received, first, count);
    else
      apply_chunk<float>(work_, received, first, count);
  }

 private:
  /// Masters and averaging state stay, and so does the value where the segment is applied.
  void keep(std::int64_t first, std::int64_t count) const {
    if (segment_ == nullptr) return;
    alignas(64) Real buffer[chunk];
    const Real* sent = buffer;
    if (block_.is_value)
      sent = fetch_values(work_, first, count, buffer);
    else
      for (std::int64_t i = 0; i < count; ++i) buffer[i] = no_update<Real>();
    write(consecutive(segment_ + first * bytes(), block_.wire_type), 0, count, sent);
  }

  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(block_.wire_type)); }

  /// segment <- U, or the new value
  void send(std::int64_t first, std::int64_t count, const Real* direction,
            const Strided<void*>& segment) const {
    alignas(64) Real buffer[chunk];
    // Where U is sent as it is, it is made in the segment.
    Real* const sent = block_.master < 0 ? in_place<Real>(segment, 0, count) : nullptr;
    Real* const p = sent != nullptr ? sent : buffer;
    scale_and_decay(work_, rule_, direction, first, count, p);
    if (rule_.averages) average(rule_, count, average_ + first, p);
    if (rule_.iterates) average_iterate(work_, first, count, average_ + first, p);
    if (block_.master < 0) {
      if (block_.is_value) add_values(work_, threshold_, first, count, p);
      if (sent == nullptr) write(segment, 0, count, p);
      return;
    }
    float* const master = master_ + first;
    for (std::int64_t i = 0; i < count; ++i)
      master[i] = stored<float>(added(real<Real>(master[i]), p[i], threshold_));
    write(segment, 0, count, master);
  }

  const Work& work_;
  const Block& block_;
  UpdateRule<Real> rule_;
  bool takes_step_;
  Real threshold_;
  Real* average_;
  float* master_;
  char* segment_ = nullptr;  ///< of the tile; null: the values change
};

template <typename Real>
void graft(const Work& work, const UpdatePass& pass, void* direction) {
  const auto ratio = static_cast<Real>(norm_ratio(pass, work.mode, work.tile.block));
  Real* const p = static_cast<Real*>(direction) + work.tile.flat;
  for (std::int64_t i = 0; i < elements_of(work.tile); ++i) p[i] *= ratio;
}

template <typename Real>
DirectionSums measure(const Work& work, const UpdatePass& pass) {
  const std::int64_t count = elements_of(work.tile);
  const Real* const p = static_cast<const Real*>(pass.direction) + work.tile.flat;
  ProductSum direction, mixed, values;
  alignas(64) Real copied[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    direction.add(p + first, p + first, n);
    if (pass.scaling.rule != ScalingRule::trust) continue;
    const Real* const w = fetch_values(work, first, n, copied);
    mixed.add(p + first, w, n);
    values.add(w, w, n);
  }
  return {direction.total(), mixed.total(), values.total()};
}

template <typename Real>
void update(const Work& work, const UpdatePass& pass, const Real* p) {
  const std::int64_t count = elements_of(work.tile);
  const TileUpdate<Real> tile(work, pass);
  for (std::int64_t first = 0; first < count; first += chunk)
    tile(first, least(chunk, count - first), p + first);
  if (pass.projection.rule == ProjectionRule::none) average_values<Real>(work, pass);
}

template <typename Real>
void filter_and_update(const Work& work, const GradientPass& gradients, const UpdatePass& pass) {
  const std::int64_t count = elements_of(work.tile);
  TileFilter<Real> filter(work, gradients, nullptr);
  const TileUpdate<Real> update(work, pass);
  alignas(64) Real p[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    filter(first, n, p);
    update(first, n, p);
  }
  if (pass.projection.rule == ProjectionRule::none) average_values<Real>(work, pass);
}

}  // namespace
}  // namespace shampoo::kernels
