// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/factor_root_kernels.h"

namespace shampoo::kernels::cuda {

namespace {

std::int64_t mirrored_tiles(const PackedMatrixGroup& group) {
  return lower_tiles(group.pairs.side, mirrored_side);
}

}  // namespace

void DeviceBackend::unpack_factors(std::span<const FactorBatch> factors, const Loading& loading,
                                   std::span<const SquareMatrixBatch> a) {
  for_each_batch<PackedMatrixGroup>(
      factors.size(),
      [&](std::size_t g) {
        return PackedMatrixGroup{factors[g], a[g]};
      },
      mirrored_tiles,
      [&](const auto& batch) {
        if (loading.sizes != nullptr) device_->launch(batch.matrices(), FindSizes{batch, loading});
        device_->launch(batch.blocks, UnpackFactors{batch, loading});
      });
}

void DeviceBackend::pack_roots(std::span<const SquareMatrixBatch> x, const RootScaling& scaling,
                               std::span<const FactorBatch> roots, std::int32_t* failed) {
  for_each_batch<PackedMatrixGroup>(
      roots.size(),
      [&](std::size_t g) {
        return PackedMatrixGroup{roots[g], x[g]};
      },
      mirrored_tiles,
      [&](const auto& batch) {
        for (const bool writes : {false, true})
          device_->launch(batch.blocks, PackRoots{batch, scaling, failed, writes});
      });
}

}  // namespace shampoo::kernels::cuda
