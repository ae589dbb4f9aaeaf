// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "tests/support/device/staged_squares.h"
#include "tests/support/device/staging.h"
#include "tests/support/device/staging_backend.h"

namespace shampoo::test {

namespace {

using kernels::FactorBatch;
using kernels::SquareMatrixBatch;

void note(Staging& staging, std::span<const FactorBatch> groups) {
  for (const FactorBatch& group : groups)
    for (std::int64_t i = 0; i < group.count; ++i)
      staging.note(group.arrays[i],
                   static_cast<std::size_t>(group.side * (group.side + 1)) * size_of(group.type));
}

std::vector<FactorBatch> staged(Staging& staging, std::span<const FactorBatch> groups) {
  std::vector<FactorBatch> result(groups.begin(), groups.end());
  for (FactorBatch& group : result) group.arrays = staging.table(group.arrays, group.count);
  return result;
}

}  // namespace

void StagingBackend::unpack_factors(std::span<const FactorBatch> factors,
                                    const kernels::Loading& loading,
                                    std::span<const SquareMatrixBatch> a) {
  Staging staging(*backend_);
  note(staging, factors);
  note(staging, a);
  for (const double* const column :
       {loading.scales, loading.shifts, loading.floors, static_cast<const double*>(loading.sizes)})
    staging.note_array(column, rows_of(a));
  staging.begin();
  kernels::Loading copy = loading;
  copy.scales = staging.at(loading.scales);
  copy.shifts = staging.at(loading.shifts);
  copy.floors = staging.at(loading.floors);
  copy.sizes = staging.at(loading.sizes);
  backend_->unpack_factors(staged(staging, factors), copy, staged(staging, a));
  staging.finish();
}

void StagingBackend::eigh(std::span<const SquareMatrixBatch> a, kernels::Eigensolver solver,
                          std::int32_t* failed) {
  Staging staging(*backend_);
  note(staging, a);
  staging.note_array(failed, rows_of(a));
  staging.begin();
  backend_->eigh(staged(staging, a), solver, staging.at(failed));
  staging.finish();
}

void StagingBackend::root_spectrum(std::span<const SquareMatrixBatch> a,
                                   const kernels::Spectrum& spectrum) {
  Staging staging(*backend_);
  note(staging, a);
  for (const double* const column : {spectrum.epsilons, spectrum.exponents})
    staging.note_array(column, rows_of(a));
  staging.note_array(spectrum.clamped, rows_of(a));
  staging.begin();
  kernels::Spectrum copy = spectrum;
  copy.epsilons = staging.at(spectrum.epsilons);
  copy.exponents = staging.at(spectrum.exponents);
  copy.clamped = staging.at(spectrum.clamped);
  backend_->root_spectrum(staged(staging, a), copy);
  staging.finish();
}

void StagingBackend::reconstruct(std::span<const SquareMatrixBatch> q,
                                 std::span<const SquareMatrixBatch> x) {
  Staging staging(*backend_);
  note(staging, q);
  note(staging, x);
  staging.begin();
  backend_->reconstruct(staged(staging, q), staged(staging, x));
  staging.finish();
}

void StagingBackend::pack_roots(std::span<const SquareMatrixBatch> x,
                                const kernels::RootScaling& scaling,
                                std::span<const FactorBatch> roots, std::int32_t* failed) {
  Staging staging(*backend_);
  note(staging, x);
  note(staging, roots);
  staging.note_array(failed, rows_of(x));
  staging.note_array(scaling.scales, scaling.scales == nullptr ? 0 : rows_of(x));
  staging.begin();
  backend_->pack_roots(staged(staging, x), {staging.at(scaling.scales), scaling.exponent},
                       staged(staging, roots), staging.at(failed));
  staging.finish();
}

void StagingBackend::multiply(std::span<const SquareMatrixBatch> a,
                              std::span<const SquareMatrixBatch> b,
                              std::span<const SquareMatrixBatch> c, const std::uint8_t* active) {
  Staging staging(*backend_);
  note(staging, a);
  note(staging, b);
  note(staging, c);
  staging.note_array(active, rows_of(a));
  staging.begin();
  backend_->multiply(staged(staging, a), staged(staging, b), staged(staging, c),
                     staging.at(active));
  staging.finish();
}

void StagingBackend::combine(const double* scales, std::span<const SquareMatrixBatch> x,
                             const double* shifts, std::span<const SquareMatrixBatch> y,
                             const std::uint8_t* active) {
  Staging staging(*backend_);
  note(staging, x);
  note(staging, y);
  for (const double* const column : {scales, shifts}) staging.note_array(column, rows_of(x));
  staging.note_array(active, rows_of(x));
  staging.begin();
  backend_->combine(staging.at(scales), staged(staging, x), staging.at(shifts), staged(staging, y),
                    staging.at(active));
  staging.finish();
}

void StagingBackend::measure(std::span<const SquareMatrixBatch> a, kernels::Measure what,
                             double* numbers, const std::uint8_t* active) {
  Staging staging(*backend_);
  note(staging, a);
  staging.note_array(numbers, rows_of(a));
  staging.note_array(active, rows_of(a));
  staging.begin();
  backend_->measure(staged(staging, a), what, staging.at(numbers), staging.at(active));
  staging.finish();
}

}  // namespace shampoo::test
