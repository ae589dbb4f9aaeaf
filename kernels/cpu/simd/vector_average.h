// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_values.h"
#include "kernels/rules/grafting.h"
#include "kernels/rules/update_rule.h"

/// The average of the values that an update has left, on one tile each. Internal linkage: see
/// vector_access.h.
namespace shampoo::kernels {
namespace {

/// UpdatePass::value_average of one tile, a chunk at a time.
template <typename Real>
class TileAverage {
 public:
  TileAverage(const Work& work, const UpdatePass& pass)
      : work_(work),
        block_(work.block),
        rule_(pass.value_average.weights[work.tile.block]),
        replaces_(pass.value_average.replaces),
        in_double_(moves_in_double(block_.wire_type, work.tensors.value_types[work.tile.tensor])),
        average_(static_cast<Real*>(pass.value_average.average) + work.tile.flat),
        master_(static_cast<float*>(pass.masters)) {
    const std::int64_t at = offset_in_block(work);
    if (block_.master >= 0) master_ += block_.master + at;
    if (pass.segment != nullptr)
      segment_ = static_cast<char*>(pass.segment) + block_.segment + at * bytes();
  }

  void operator()(std::int64_t first, std::int64_t count) const {
    alignas(64) Real buffer[chunk];
    const Real* const w = new_values(first, count, buffer);
    Real* __restrict const a = average_ + first;
    for (std::int64_t i = 0; i < count; ++i) a[i] = rule_(a[i], w[i]);
    if (replaces_) replace(first, count, a);
  }

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(block_.wire_type)); }
  char* sent(std::int64_t first) const { return segment_ + first * bytes(); }

  const Real* new_values(std::int64_t first, std::int64_t count, Real* buffer) const {
    if (segment_ == nullptr || block_.master >= 0) return fetch_values(work_, first, count, buffer);
    in_double_ ? read_applied<double>(first, count, buffer)
               : read_applied<float>(first, count, buffer);
    return buffer;
  }

  /// What apply() will make of the values and the segment.
  template <typename Sum>
  void read_applied(std::int64_t first, std::int64_t count, Real* to) const {
    const Strided<const void*> segment =
        consecutive(static_cast<const void*>(sent(first)), block_.wire_type);
    const Strided<void*> value = value_of(work_.tensors, work_.tile);
    alignas(64) Sum x[chunk], copied[chunk];
    read(segment, 0, count, x);
    if (!block_.is_value) {
      const Sum* const w = fetch<Sum>(
          {value.base, value.type, value.columns, value.row, value.column}, first, count, copied);
      const Sum threshold = overflow_threshold<Sum>(value.type, value.type);
      for (std::int64_t i = 0; i < count; ++i) x[i] = added(w[i], x[i], threshold);
    }
    with_type(value.type, [&](auto* tag) {
      using Stored = std::remove_pointer_t<decltype(tag)>;
      for (std::int64_t i = 0; i < count; ++i) to[i] = real<Real>(stored<Stored>(x[i]));
    });
  }

  void replace(std::int64_t first, std::int64_t count, const Real* a) const {
    if (block_.master < 0) return send(first, count, a);
    float* const master = master_ + first;
    for (std::int64_t i = 0; i < count; ++i) master[i] = stored<float>(a[i]);
    send(first, count, master);
  }

  template <typename Value>
  void send(std::int64_t first, std::int64_t count, const Value* x) const {
    if (segment_ != nullptr) return write(consecutive(sent(first), block_.wire_type), 0, count, x);
    alignas(64) char rounded[chunk * sizeof(double)];
    write(consecutive(rounded, block_.wire_type), 0, count, x);
    const Strided<const void*> received =
        consecutive(static_cast<const void*>(rounded), block_.wire_type);
    in_double_ ? apply_chunk<double>(work_, received, first, count)
               : apply_chunk<float>(work_, received, first, count);
  }

  const Work& work_;
  const Block& block_;
  ValueAverageRule<Real> rule_;
  bool replaces_, in_double_;
  Real* average_;
  float* master_;
  char* segment_ = nullptr;  ///< of the tile; null: the values have changed
};

template <typename Real>
void average_values(const Work& work, const UpdatePass& pass) {
  if (pass.value_average.average == nullptr) return;
  if (pass.value_average.weights[work.tile.block] == 0) return;
  if (!takes_step<Real>(pass, work.mode, work.tile.block)) return;
  const std::int64_t count = elements_of(work.tile);
  const TileAverage<Real> tile(work, pass);
  for (std::int64_t first = 0; first < count; first += chunk)
    tile(first, least(chunk, count - first));
}

}  // namespace
}  // namespace shampoo::kernels
