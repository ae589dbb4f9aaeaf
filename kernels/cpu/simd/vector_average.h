// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_sums.h"
#include "kernels/cpu/simd/vector_values.h"
#include "kernels/rules/grafting.h"
#include "kernels/rules/update_rule.h"

/// The projection and the average of the values that an update has left, on one tile each. Internal
/// linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

/// The values that the update of one tile has left: in its masters, its segment, or its place.
template <typename Real>
class NewValues {
 public:
  NewValues(const Work& work, const UpdatePass& pass)
      : work_(work),
        block_(work.block),
        in_double_(moves_in_double(block_.wire_type, work.tensors.value_types[work.tile.tensor])),
        master_(static_cast<float*>(pass.masters)) {
    const std::int64_t at = offset_in_block(work);
    if (block_.master >= 0) master_ += block_.master + at;
    if (pass.segment != nullptr)
      segment_ = static_cast<char*>(pass.segment) + block_.segment + at * bytes();
  }

  const Real* read_new(std::int64_t first, std::int64_t count, Real* buffer) const {
    if (segment_ == nullptr || block_.master >= 0) return fetch_values(work_, first, count, buffer);
    in_double_ ? read_applied<double>(first, count, buffer)
               : read_applied<float>(first, count, buffer);
    return buffer;
  }

  void replace(std::int64_t first, std::int64_t count, const Real* x) const {
    if (block_.master < 0) return send(first, count, x);
    float* const master = master_ + first;
    for (std::int64_t i = 0; i < count; ++i) master[i] = stored<float>(x[i]);
    send(first, count, master);
  }

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(block_.wire_type)); }
  char* sent(std::int64_t first) const { return segment_ + first * bytes(); }

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
  bool in_double_;
  float* master_;
  char* segment_ = nullptr;  ///< of the tile; null: the values have changed
};

/// W . W
template <typename Real>
double new_value_norm(const Work& work, const UpdatePass& pass) {
  const std::int64_t count = elements_of(work.tile);
  const NewValues<Real> values(work, pass);
  ProductSum sum;
  alignas(64) Real buffer[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    const Real* const w = values.read_new(first, n, buffer);
    sum.add(w, w, n);
  }
  return sum.total();
}

/// UpdatePass::projection
template <typename Real>
void project_values(const Work& work, const UpdatePass& pass) {
  if (!takes_step<Real>(pass, work.mode, work.tile.block)) return;
  const std::int64_t count = elements_of(work.tile);
  const NewValues<Real> values(work, pass);
  const ProjectedValue<Real> rule(pass.projection, work.tile.block);
  alignas(64) Real buffer[chunk], projected[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    const Real* const w = values.read_new(first, n, buffer);
    for (std::int64_t i = 0; i < n; ++i) projected[i] = rule(w[i]);
    values.replace(first, n, projected);
  }
}

/// UpdatePass::value_average
template <typename Real>
void average_values(const Work& work, const UpdatePass& pass) {
  if (pass.value_average.average == nullptr) return;
  if (pass.value_average.weights[work.tile.block] == 0) return;
  if (!takes_step<Real>(pass, work.mode, work.tile.block)) return;
  const std::int64_t count = elements_of(work.tile);
  const NewValues<Real> values(work, pass);
  const ValueAverageRule<Real> rule(pass.value_average.weights[work.tile.block]);
  Real* const average = static_cast<Real*>(pass.value_average.average) + work.tile.flat;
  alignas(64) Real buffer[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    const Real* const w = values.read_new(first, n, buffer);
    Real* __restrict const a = average + first;
    for (std::int64_t i = 0; i < n; ++i) a[i] = rule(a[i], w[i]);
    if (pass.value_average.replaces) values.replace(first, n, a);
  }
}

}  // namespace
}  // namespace shampoo::kernels
