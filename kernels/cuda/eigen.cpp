// SPDX-License-Identifier: Apache-2.0
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
            decompose({x, member, flag++, failed + x.first + member, workspace_.eigen(x.side)});
        }
      },
      Workspace::rows);
}

void DeviceBackend::decompose(const DecomposedMatrix& matrix) {
  const std::int64_t n = matrix.batch.side;
  device_->launch(row_parts(n), WidenMatrix{matrix});
  device_->decompose({n, matrix.wide, matrix.wide_values(), matrix.failed});
  device_->launch(row_parts(n), NarrowVectors{matrix});
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
