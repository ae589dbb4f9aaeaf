// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/eigen_kernels.h"

namespace shampoo::kernels::cuda {

/// One library, one method.
void DeviceBackend::eigh(std::span<const SquareMatrixBatch> a, Eigensolver, std::int32_t* failed) {
  std::int32_t* const flags = workspace_.flags();
  for_each_batch<MatrixGroup>(
      a.size(), [&](std::size_t g) { return MatrixGroup{a[g]}; }, row_parts_of<MatrixGroup>,
      [&](const auto& batch) {
        device_->zero(flags, static_cast<std::size_t>(batch.matrices()) * sizeof(std::int32_t));
        device_->launch(batch.blocks, FlagMatrices{batch, flags});
        const std::int32_t* flag = flags;
        for (int g = 0; g < batch.count; ++g) {
          const SquareMatrixBatch& x = batch.groups[g].x;
          for (std::int64_t member = 0; member < x.count; ++member)
            decompose({x, member, flag++, failed + x.first + member, workspace_.eigen(x.side),
                       workspace_.numbers()});
        }
      },
      Workspace::rows);
}

void DeviceBackend::decompose(const DecomposedMatrix& matrix) {
  const std::int64_t n = matrix.batch.side;
  device_->launch(row_parts(n), WidenMatrix{matrix});
  device_->decompose({n, matrix.wide, matrix.wide_values(), matrix.failed});
  orthogonalize_vectors(matrix);
  device_->launch(row_parts(n), NarrowVectors{matrix});
}

/// Q <- (Q Q^T)^(-1/2) Q by Newton-Schulz steps Q <- 3/2 Q - 1/2 Q Q^T Q [Higham 2008, 8.3].
/// cuSOLVER's vectors of one eigenvalue, which alone this mixes, can be far from orthogonal where a
/// matrix has a low rank to the last bit.
void DeviceBackend::orthogonalize_vectors(const DecomposedMatrix& matrix) {
  const std::int64_t n = matrix.batch.side;
  SquareMatrixBatch q{.type = Type::float64, .side = n, .count = 1, .data = matrix.wide};
  SquareMatrixBatch gram = q, next = q;
  gram.data = matrix.wide + n * n;
  next.data = matrix.wide + 2 * n * n;
  const Product gram_product = square_product(q, false, q, true, gram);
  device_->multiply(gram_product);
  measure({&gram, 1}, Measure::largest_row_sum, matrix.number, nullptr);
  device_->launch(row_parts(n), ShrinkVectors{matrix});
  for (int step = 0; step < orthogonalizing_steps; ++step) {
    device_->multiply(square_product(q, false, q, true, gram));
    Product product = square_product(gram, false, q, false, next);
    product.alpha = -0.5;
    product.beta = 1.5;
    product.addend = q.data;
    device_->multiply(product);
    std::swap(q, next);
  }
  device_->multiply(gram_product);
  measure({&gram, 1}, Measure::distance_from_identity, matrix.number, nullptr);
}

void DeviceBackend::root_spectrum(std::span<const SquareMatrixBatch> a, const Spectrum& spectrum) {
  for_each_batch<MatrixGroup>(
      a.size(), [&](std::size_t g) { return MatrixGroup{a[g]}; }, one_part<MatrixGroup>,
      [&](const auto& batch) {
        device_->launch(batch.blocks, RootSpectrum{batch, spectrum});
      });
}

void DeviceBackend::reconstruct(std::span<const SquareMatrixBatch> q,
                                std::span<const SquareMatrixBatch> x) {
  for_each_batch<MatrixGroup>(
      q.size(), [&](std::size_t g) { return MatrixGroup{q[g]}; }, row_parts_of<MatrixGroup>,
      [&](const auto& batch) { device_->launch(batch.blocks, ScaleVectors{batch}); });
  // X <- B^T B with B's rows sqrt(value_j) q_j
  for (std::size_t g = 0; g < q.size(); ++g)
    if (q[g].count > 0) device_->multiply(square_product(q[g], true, q[g], false, x[g]));
}

}  // namespace shampoo::kernels::cuda
