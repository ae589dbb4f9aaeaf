// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/basis_kernels.h"

namespace shampoo::kernels::cuda {

namespace {

template <typename Run>
void for_bases(std::span<const BasisBatch> bases, std::span<const SquareMatrixBatch> q, Run&& run) {
  for_each_batch<BasisGroup>(
      bases.size(),
      [&](std::size_t g) {
        return BasisGroup{bases[g], q[g]};
      },
      row_parts_of<BasisGroup>, run);
}

}  // namespace

void DeviceBackend::load_bases(std::span<const BasisBatch> bases,
                               std::span<const SquareMatrixBatch> q) {
  for_bases(bases, q, [&](const Batch<BasisGroup>& batch) {
    device_->launch(batch.blocks, MoveBases{batch, nullptr, MoveBases::Task::load});
  });
}

void DeviceBackend::store_bases(std::span<const SquareMatrixBatch> q,
                                std::span<const BasisBatch> bases, std::int32_t* failed) {
  for_bases(bases, q, [&](const Batch<BasisGroup>& batch) {
    device_->launch(batch.blocks, MoveBases{batch, failed, MoveBases::Task::judge});
    device_->launch(batch.blocks, MoveBases{batch, failed, MoveBases::Task::store});
  });
}

void DeviceBackend::iterate_orthogonally(std::span<const SquareMatrixBatch> x,
                                         std::span<const SquareMatrixBatch> a,
                                         std::span<const SquareMatrixBatch> q, int iterations,
                                         const std::uint8_t* active) {
  for (int i = 0; i < iterations; ++i) {
    if (i > 0) multiply(q, a, x, active);
    for_each_pair_batch(x, q, one_part<MatrixPairGroup>, [&](const Batch<MatrixPairGroup>& batch) {
      device_->launch(batch.blocks, OrthonormalizeRows{batch, active});
    });
  }
}

void DeviceBackend::sort_basis(std::span<const SquareMatrixBatch> a,
                               std::span<const SquareMatrixBatch> x,
                               std::span<const SquareMatrixBatch> q,
                               std::span<const SquareMatrixBatch> s) {
  multiply(q, a, x, nullptr);
  for_each_batch<ThreeOf>(
      x.size(),
      [&](std::size_t g) {
        return ThreeOf{x[g], q[g], s[g]};
      },
      one_part<ThreeOf>,
      [&](const Batch<ThreeOf>& batch) { device_->launch(batch.blocks, SortBasis{batch}); });
}

void DeviceBackend::multiply_transposed(std::span<const SquareMatrixBatch> a,
                                        std::span<const SquareMatrixBatch> b,
                                        std::span<const SquareMatrixBatch> c) {
  for (std::size_t g = 0; g < a.size(); ++g)
    if (a[g].count > 0) device_->multiply(square_product(a[g], false, b[g], true, c[g]));
}

}  // namespace shampoo::kernels::cuda
