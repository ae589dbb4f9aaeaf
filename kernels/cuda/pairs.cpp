// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/pair_kernels.h"

namespace shampoo::kernels::cuda {

namespace {

std::int64_t mirrored_tiles(const PairedOf& group) {
  return lower_tiles(group.pairs.side, mirrored_side);
}

}  // namespace

void DeviceBackend::load(std::span<const FactorBatch> factors, const Loading& loading,
                         std::span<const SquareMatrixBatch> a) {
  for_each_batch<PairedOf>(
      factors.size(),
      [&](std::size_t g) {
        return PairedOf{factors[g], a[g]};
      },
      mirrored_tiles,
      [&](const auto& batch) {
        device_->launch(batch.blocks, LoadFactors{batch, loading});
      });
}

void DeviceBackend::store(std::span<const SquareMatrixBatch> x, std::span<const FactorBatch> roots,
                          std::int32_t* failed) {
  for_each_batch<PairedOf>(
      roots.size(),
      [&](std::size_t g) {
        return PairedOf{roots[g], x[g]};
      },
      mirrored_tiles,
      [&](const auto& batch) {
        device_->launch(batch.blocks, StoreRoots{batch, failed, false});
        device_->launch(batch.blocks, StoreRoots{batch, failed, true});
      });
}

void DeviceBackend::identity_roots(std::span<const FactorBatch> roots) {
  for_each_batch<PairedOf>(
      roots.size(),
      [&](std::size_t g) {
        return PairedOf{roots[g], {}};
      },
      [](const PairedOf& group) { return row_parts(group.pairs.side); },
      [&](const auto& batch) { device_->launch(batch.blocks, IdentityRoots{batch}); });
}

}  // namespace shampoo::kernels::cuda
