// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/square_matrix_kernels.h"
#include "kernels/cuda/gemm/square_products.h"
#include "kernels/cuda/gemm/tile_class.h"

namespace shampoo::kernels::cuda {

/// A library takes all matrices of a group or none, so products with a mask are made here: those of
/// resting matrices are skipped on the device.
void DeviceBackend::multiply(std::span<const SquareMatrixBatch> a,
                             std::span<const SquareMatrixBatch> b,
                             std::span<const SquareMatrixBatch> c, const std::uint8_t* active) {
  if (active == nullptr) {
    for (std::size_t g = 0; g < a.size(); ++g)
      if (a[g].count > 0) device_->multiply(square_product(a[g], false, b[g], false, c[g]));
    return;
  }
  for_each_tile_class([&]<typename Class>(Class) {
    constexpr int tile = Class::tile;
    for_each_batch<ThreeOf>(
        a.size(),
        [&](std::size_t g) {
          return Class::has(a[g].type, a[g].side) ? ThreeOf{a[g], b[g], c[g]} : ThreeOf{};
        },
        [](const ThreeOf& group) {
          return ceiling(group.c.side, tile) * ceiling(group.c.side, tile);
        },
        [&](const auto& batch) {
          device_->launch(batch.blocks, SquareProduct<typename Class::real, tile>{batch, active});
        });
  });
}

void DeviceBackend::combine(const double* scales, std::span<const SquareMatrixBatch> x,
                            const double* shifts, std::span<const SquareMatrixBatch> y,
                            const std::uint8_t* active) {
  for_each_pair_batch(x, y, row_parts_of<MatrixPairGroup>, [&](const auto& batch) {
    device_->launch(batch.blocks, Combine{batch, scales, shifts, active});
  });
}

void DeviceBackend::measure(std::span<const SquareMatrixBatch> a, Measure what, double* numbers,
                            const std::uint8_t* active) {
  double* const partials = workspace_.partials();
  for_each_batch<MatrixGroup>(
      a.size(), [&](std::size_t g) { return MatrixGroup{a[g]}; }, row_parts_of<MatrixGroup>,
      [&](const auto& batch) {
        device_->launch(batch.blocks, MeasureParts{batch, what, active, partials});
        device_->launch(batch.matrices(),
                        MeasureMatrices{batch, what, active, partials, numbers, false});
      },
      Workspace::rows);
}

}  // namespace shampoo::kernels::cuda
