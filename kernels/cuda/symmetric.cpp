// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/formed_product.h"
#include "kernels/cuda/gemm/square_matrix_kernels.h"
#include "kernels/cuda/gemm/symmetric_kernels.h"
#include "kernels/cuda/gemm/tile_class.h"

namespace shampoo::kernels::cuda {

namespace {

static_assert(most_row_parts <= Workspace::rows);

/// Numbers of matrices in the order of a batch.
void measure_in_batch(Device& device, const Batch<MatrixGroup>& batch, Measure what,
                      double* partials, double* numbers, Form form = Form::dense) {
  device.launch(batch.blocks, MeasureParts{batch, what, nullptr, partials, form});
  device.launch(batch.matrices(), MeasureMatrices{batch, what, nullptr, partials, numbers, true});
}

std::int64_t thread_blocks(std::int64_t matrices, int threads) {
  return ceiling(matrices, threads);
}

}  // namespace

void DeviceBackend::damp(std::span<const SquareMatrixBatch> a,
                         std::span<const SquareMatrixBatch> squared, const Damping& damping,
                         std::span<const SquareMatrixBatch> m, std::span<const SquareMatrixBatch> n,
                         Form form) {
  double* const partials = workspace_.partials();
  double* const norms = workspace_.numbers();
  auto* const shifts = reinterpret_cast<DampingShift*>(norms + Workspace::rows);
  for_each_batch<DampingGroup>(
      a.size(),
      [&](std::size_t g) {
        return DampingGroup{a[g], squared[g], m[g], n[g]};
      },
      row_parts_of<DampingGroup>,
      [&](const Batch<DampingGroup>& batch) {
        Batch<MatrixGroup> measured;
        for (int g = 0; g < batch.count; ++g) {
          const MatrixGroup group{batch.groups[g].squared};
          measured.add(group, row_parts_of(group));
        }
        measure_in_batch(*device_, measured, Measure::frobenius, partials, norms);
        device_->launch(thread_blocks(batch.matrices(), FindShifts::threads),
                        FindShifts{batch, damping, norms, shifts});
        device_->launch(batch.blocks, Damp{batch, damping.polynomial, shifts, form});
      },
      Workspace::rows);
}

void DeviceBackend::convert(std::span<const SquareMatrixBatch> a,
                            std::span<const SquareMatrixBatch> c, Form form) {
  for_each_pair_batch(a, c, row_parts_of<MatrixPairGroup>,
                      [&](const Batch<MatrixPairGroup>& batch) {
                        device_->launch(batch.blocks, Convert{batch, form});
                      });
}

void DeviceBackend::multiply_symmetric(std::span<const SquareMatrixBatch> a,
                                       std::span<const SquareMatrixBatch> b, Form operands,
                                       const Weights& weights, std::span<const SquareMatrixBatch> d,
                                       std::span<const SquareMatrixBatch> c, Form form) {
  for_each_tile_class([&]<typename Class>(Class) {
    if constexpr (Class::tile == 64)
      for_each_batch<FourOf>(
          a.size(),
          [&](std::size_t g) {
            const bool mine = !has_forms(a[g]) && Class::has(a[g].type, a[g].side);
            return mine ? FourOf{a[g], b[g], d[g], c[g]} : FourOf{};
          },
          [](const FourOf& group) { return lower_tiles(group.c.side, Class::tile); },
          [&](const Batch<FourOf>& batch) {
            device_->launch(batch.blocks,
                            SymmetricProduct<typename Class::real, Class::tile>{batch, weights});
          });
  });
  for_each_batch<FourOf>(
      a.size(),
      [&](std::size_t g) {
        return has_forms(a[g]) ? FourOf{a[g], b[g], d[g], c[g]} : FourOf{};
      },
      [](const FourOf& group) { return lower_tiles(group.c.side, FormedProduct::side); },
      [&](const Batch<FourOf>& batch) {
        device_->launch(
            batch.blocks,
            FormedProduct{batch, operands, static_cast<float>(weights.product),
                          static_cast<float>(weights.first), static_cast<float>(weights.addend),
                          static_cast<float>(weights.identity), form});
      });
}

void DeviceBackend::check_identity(std::span<const SquareMatrixBatch> m, Form form, double limit,
                                   const std::int32_t* proceed, const std::uint8_t* active,
                                   std::int32_t* failed) {
  double* const partials = workspace_.partials();
  double* const distances = workspace_.numbers();
  for_each_batch<MatrixGroup>(
      m.size(), [&](std::size_t g) { return MatrixGroup{m[g]}; }, row_parts_of<MatrixGroup>,
      [&](const Batch<MatrixGroup>& batch) {
        measure_in_batch(*device_, batch, Measure::distance_from_identity, partials, distances,
                         form);
        device_->launch(thread_blocks(batch.matrices(), CheckIdentity::threads),
                        CheckIdentity{batch, distances, limit, proceed, active, failed});
      },
      Workspace::rows);
}

}  // namespace shampoo::kernels::cuda
