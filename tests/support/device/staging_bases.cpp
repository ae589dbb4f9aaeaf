// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <vector>

#include "tests/support/device/staged_squares.h"
#include "tests/support/device/staging.h"
#include "tests/support/device/staging_backend.h"

namespace shampoo::test {

namespace {

using kernels::BasisBatch;
using kernels::SquareMatrixBatch;

void note(Staging& staging, std::span<const BasisBatch> batches) {
  for (const BasisBatch& batch : batches)
    for (std::int64_t i = 0; i < batch.count; ++i) {
      const auto side = static_cast<std::size_t>(batch.side), size = size_of(batch.type);
      staging.note(batch.bases[i], side * side * size);
      if (batch.values != nullptr) staging.note(batch.values[i], side * size);
    }
}

std::vector<BasisBatch> staged(Staging& staging, std::span<const BasisBatch> batches) {
  std::vector<BasisBatch> result(batches.begin(), batches.end());
  for (BasisBatch& batch : result) {
    batch.bases = staging.table(batch.bases, batch.count);
    if (batch.values != nullptr) batch.values = staging.table(batch.values, batch.count);
  }
  return result;
}

}  // namespace

// Whole steps of these kinds run on the device's own backend.
void StagingBackend::precondition_in_eigenbasis(const kernels::PassContext&,
                                                std::span<const kernels::Stack>,
                                                std::span<const kernels::Selection>,
                                                const kernels::EigenbasisPass&) {
  throw std::logic_error("blocks in eigenbases are not staged");
}

void StagingBackend::load_bases(std::span<const BasisBatch> bases,
                                std::span<const SquareMatrixBatch> q) {
  Staging staging(*backend_);
  note(staging, bases);
  note(staging, q);
  staging.begin();
  backend_->load_bases(staged(staging, bases), staged(staging, q));
  staging.finish();
}

void StagingBackend::store_bases(std::span<const SquareMatrixBatch> q,
                                 std::span<const BasisBatch> bases, std::int32_t* failed) {
  Staging staging(*backend_);
  note(staging, bases);
  note(staging, q);
  staging.note_array(failed, rows_of(q));
  staging.begin();
  backend_->store_bases(staged(staging, q), staged(staging, bases), staging.at(failed));
  staging.finish();
}

void StagingBackend::iterate_orthogonally(std::span<const SquareMatrixBatch> x,
                                          std::span<const SquareMatrixBatch> a,
                                          std::span<const SquareMatrixBatch> q, int iterations,
                                          const std::uint8_t* active) {
  Staging staging(*backend_);
  note(staging, x);
  note(staging, a);
  note(staging, q);
  staging.note_array(active, rows_of(x));
  staging.begin();
  backend_->iterate_orthogonally(staged(staging, x), staged(staging, a), staged(staging, q),
                                 iterations, staging.at(active));
  staging.finish();
}

void StagingBackend::sort_basis(std::span<const SquareMatrixBatch> a,
                                std::span<const SquareMatrixBatch> x,
                                std::span<const SquareMatrixBatch> q,
                                std::span<const SquareMatrixBatch> s) {
  Staging staging(*backend_);
  note(staging, a);
  note(staging, x);
  note(staging, q);
  note(staging, s);
  staging.begin();
  backend_->sort_basis(staged(staging, a), staged(staging, x), staged(staging, q),
                       staged(staging, s));
  staging.finish();
}

void StagingBackend::multiply_transposed(std::span<const SquareMatrixBatch> a,
                                         std::span<const SquareMatrixBatch> b,
                                         std::span<const SquareMatrixBatch> c) {
  Staging staging(*backend_);
  note(staging, a);
  note(staging, b);
  note(staging, c);
  staging.begin();
  backend_->multiply_transposed(staged(staging, a), staged(staging, b), staged(staging, c));
  staging.finish();
}

}  // namespace shampoo::test
