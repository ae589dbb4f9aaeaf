// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/staged_squares.h"
#include "tests/support/device/staging_backend.h"

namespace shampoo::test {

using kernels::SquareMatrixBatch;

void StagingBackend::damp(std::span<const SquareMatrixBatch> a,
                          std::span<const SquareMatrixBatch> squared,
                          const kernels::Damping& damping, std::span<const SquareMatrixBatch> m,
                          std::span<const SquareMatrixBatch> n, kernels::Form form) {
  Staging staging(*backend_);
  for (const auto& matrices : {a, squared, m, n}) note(staging, matrices);
  staging.note_array(damping.epsilons, rows_of(a));
  for (double* const column : {damping.scales, damping.clamped})
    staging.note_array(column, rows_of(a));
  staging.begin();
  kernels::Damping copy = damping;
  copy.epsilons = staging.at(damping.epsilons);
  copy.scales = staging.at(damping.scales);
  copy.clamped = staging.at(damping.clamped);
  backend_->damp(staged(staging, a), staged(staging, squared), copy, staged(staging, m),
                 staged(staging, n), form);
  staging.finish();
}

void StagingBackend::convert(std::span<const SquareMatrixBatch> a,
                             std::span<const SquareMatrixBatch> c, kernels::Form form) {
  Staging staging(*backend_);
  note(staging, a);
  note(staging, c);
  staging.begin();
  backend_->convert(staged(staging, a), staged(staging, c), form);
  staging.finish();
}

void StagingBackend::multiply_symmetric(std::span<const SquareMatrixBatch> a,
                                        std::span<const SquareMatrixBatch> b,
                                        kernels::Form operands, const kernels::Weights& weights,
                                        std::span<const SquareMatrixBatch> d,
                                        std::span<const SquareMatrixBatch> c, kernels::Form form) {
  Staging staging(*backend_);
  note(staging, a);
  note(staging, b);
  note(staging, d);
  note(staging, c);
  staging.begin();
  backend_->multiply_symmetric(staged(staging, a), staged(staging, b), operands, weights,
                               staged(staging, d), staged(staging, c), form);
  staging.finish();
}

void StagingBackend::check_identity(std::span<const SquareMatrixBatch> m, kernels::Form form,
                                    double limit, const std::int32_t* proceed,
                                    const std::uint8_t* active, std::int32_t* failed) {
  Staging staging(*backend_);
  note(staging, m);
  staging.note_array(proceed, proceed == nullptr ? 0 : 1);
  staging.note_array(active, active == nullptr ? 0 : rows_of(m));
  staging.note_array(failed, rows_of(m));
  staging.begin();
  backend_->check_identity(staged(staging, m), form, limit, staging.at(proceed), staging.at(active),
                           staging.at(failed));
  staging.finish();
}

}  // namespace shampoo::test
