// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/half_panels.h"
#include "kernels/cuda/gemm/square_matrix_kernels.h"
#include "kernels/cuda/gemm/symmetric_kernels.h"
#include "kernels/cuda/gemm/tile_class.h"

namespace shampoo::kernels::cuda {

namespace {

/// Numbers of matrices in the order of a batch.
void measure_in_batch(Device& device, const Batch<MatrixGroup>& batch, Number what,
                      double* partials, double* numbers) {
  device.launch(batch.blocks, MeasureParts{batch, what, nullptr, partials});
  device.launch(batch.matrices(), MeasureMatrices{batch, what, nullptr, partials, numbers, true});
}

Batch<MatrixGroup> one_of(const Batch<MatrixPairGroup>& batch,
                          SquareMatrixBatch MatrixPairGroup::*which) {
  Batch<MatrixGroup> result;
  for (int g = 0; g < batch.count; ++g) result.add({batch.groups[g].*which}, batch.parts[g]);
  return result;
}

std::int64_t thread_blocks(std::int64_t matrices, int threads) {
  return ceiling(matrices, threads);
}

/// Whether products of this kind run on units for 16 bits.
bool splits(const SquareMatrixBatch& squares) {
  return squares.type == Type::float32 && squares.side > longest_small_side;
}

/// A column range of panels.
Matrices panel_part(const HalfPanels& panels, std::int64_t first_part, bool transposed) {
  const std::int64_t n = panels.x.side;
  return {panels.panels + first_part * HalfPanels::width(n), Type::float16,
          HalfPanels::row(n, panels.has_low), HalfPanels::size(n, panels.has_low), transposed};
}

/// C <- A B from terms in float16; its mean with its transpose is the product.
struct HalfProducts {
  HalfProducts(const ThreeOf& group, Precision precision, void* panels);

  bool square;
  HalfPanels left, right;  ///< of a square the same
  Product high, low;       ///< low.count is 0 where panels have no low part
};

HalfProducts::HalfProducts(const ThreeOf& group, Precision precision, void* panels)
    : square(group.a.data == group.b.data) {
  const std::int64_t n = group.a.side, width = HalfPanels::width(n), count = group.a.count;
  const bool has_low = precision == Precision::accurate;
  auto* const memory = static_cast<Float16*>(panels);
  left = {group.a, memory, has_low};
  right = left;
  if (!square) right = {group.b, memory + count * HalfPanels::size(n, has_low), has_low};

  const Matrices a = panel_part(left, 0, false), b = panel_part(right, 0, true);
  high = {n, n, n, count, a, b, group.c.data, Type::float32, n, n * n, 1, 0};
  if (!has_low) return;
  constexpr double low_unit = 1.0 / static_cast<double>(HalfPanels::low_scale);
  low = high;
  low.beta = 1;
  low.b = panel_part(right, 1, true);
  // hi lo + lo hi is twice the mean of hi lo and its transpose.
  low.alpha = square ? 2 * low_unit : low_unit;
  if (!square) low.depth = 2 * width;
}

}  // namespace

void DeviceBackend::normalize(std::span<const SquareMatrixBatch> a, double* scales) {
  double* const partials = workspace_.partials();
  for_each_batch<MatrixGroup>(
      a.size(), [&](std::size_t g) { return MatrixGroup{a[g]}; }, row_parts_of<MatrixGroup>,
      [&](const Batch<MatrixGroup>& batch) {
        constexpr Number what = Number::power_of_two;
        device_->launch(batch.blocks, MeasureParts{batch, what, nullptr, partials});
        device_->launch(batch.matrices(),
                        MeasureMatrices{batch, what, nullptr, partials, scales, false});
        device_->launch(batch.blocks, Normalize{batch, scales});
      },
      Workspace::rows);
}

void DeviceBackend::damp(std::span<const SquareMatrixBatch> a,
                         std::span<const SquareMatrixBatch> squared, const Damping& damping) {
  double* const partials = workspace_.partials();
  double* const row_sums = workspace_.numbers();
  double* const norms = row_sums + Workspace::rows;
  auto* const shifts = reinterpret_cast<DampingShift*>(norms + Workspace::rows);
  for_each_batch<MatrixPairGroup>(
      a.size(),
      [&](std::size_t g) {
        return MatrixPairGroup{a[g], squared[g]};
      },
      row_parts_of<MatrixPairGroup>,
      [&](const Batch<MatrixPairGroup>& batch) {
        measure_in_batch(*device_, one_of(batch, &MatrixPairGroup::x), Number::largest_row_sum,
                         partials, row_sums);
        measure_in_batch(*device_, one_of(batch, &MatrixPairGroup::y), Number::frobenius, partials,
                         norms);
        device_->launch(thread_blocks(batch.matrices(), FindShifts::threads),
                        FindShifts{batch, damping, row_sums, norms, shifts});
        device_->launch(batch.blocks, Damp{batch, damping.polynomial[0], damping.polynomial[1],
                                           damping.polynomial[2], shifts});
      },
      Workspace::rows);
}

void DeviceBackend::multiply_symmetric(std::span<const SquareMatrixBatch> a,
                                       std::span<const SquareMatrixBatch> b, const Weights& weights,
                                       Precision precision, std::span<const SquareMatrixBatch> c) {
  for_each_tile_class([&]<typename Class>(Class) {
    if constexpr (Class::tile == 64)
      for_each_batch<ThreeOf>(
          a.size(),
          [&](std::size_t g) {
            const bool mine = !splits(a[g]) && Class::has(a[g].type, a[g].side);
            return mine ? ThreeOf{a[g], b[g], c[g]} : ThreeOf{};
          },
          [](const ThreeOf& group) { return lower_tiles(group.c.side, Class::tile); },
          [&](const Batch<ThreeOf>& batch) {
            device_->launch(batch.blocks,
                            SymmetricProduct<typename Class::real, Class::tile>{batch, weights});
          });
  });
  for (std::size_t g = 0; g < a.size(); ++g) {
    if (!splits(a[g])) continue;
    const ThreeOf group{a[g], b[g], c[g]};
    const std::int64_t side = a[g].side;
    const std::int64_t most = workspace_.panel_matrices(side, precision == Precision::accurate);
    for (std::int64_t first = 0; first < a[g].count; first += most)
      multiply_halves(group.range(first, std::min(most, a[g].count - first)), precision);
  }
  for_each_batch<MatrixPairGroup>(
      a.size(),
      [&](std::size_t g) {
        return splits(a[g]) ? MatrixPairGroup{a[g], c[g]} : MatrixPairGroup{};
      },
      [](const MatrixPairGroup& group) { return lower_tiles(group.x.side, mirrored_side); },
      [&](const Batch<MatrixPairGroup>& batch) {
        device_->launch(batch.blocks, LinearCombination{batch, weights});
      });
}

void DeviceBackend::multiply_halves(const ThreeOf& group, Precision precision) {
  const HalfProducts halves(group, precision, workspace_.panels());
  for_each_batch<HalfPanels>(
      halves.square ? 1 : 2, [&](std::size_t g) { return g == 0 ? halves.left : halves.right; },
      row_parts_of<HalfPanels>,
      [&](const Batch<HalfPanels>& batch) { device_->launch(batch.blocks, SplitFloat16{batch}); });
  device_->multiply(halves.high);
  if (halves.low.count > 0) device_->multiply(halves.low);
}

void DeviceBackend::add_symmetric_products(std::int64_t side, std::vector<Product>& products) {
  const SquareMatrixBatch a{
      .type = Type::float32, .side = side, .count = 1, .data = workspace_.panels()};
  if (!splits(a)) return;
  SquareMatrixBatch other = a;
  other.data = nullptr;
  for (const Precision precision : {Precision::half, Precision::accurate})
    for (const SquareMatrixBatch& b : {a, other}) {
      const HalfProducts halves({a, b, a}, precision, workspace_.panels());
      products.push_back(halves.high);
      if (halves.low.count > 0) products.push_back(halves.low);
    }
}

void DeviceBackend::check_identity(std::span<const SquareMatrixBatch> m, double limit,
                                   const std::int32_t* proceed, const std::uint8_t* active,
                                   std::int32_t* failed) {
  double* const partials = workspace_.partials();
  double* const distances = workspace_.numbers();
  for_each_batch<MatrixGroup>(
      m.size(), [&](std::size_t g) { return MatrixGroup{m[g]}; }, row_parts_of<MatrixGroup>,
      [&](const Batch<MatrixGroup>& batch) {
        measure_in_batch(*device_, batch, Number::distance_from_identity, partials, distances);
        device_->launch(thread_blocks(batch.matrices(), CheckIdentity::threads),
                        CheckIdentity{batch, distances, limit, proceed, active, failed});
      },
      Workspace::rows);
}

void DeviceBackend::rescale(std::span<const SquareMatrixBatch> x, const double* scales,
                            double exponent) {
  for_each_batch<MatrixGroup>(
      x.size(), [&](std::size_t g) { return MatrixGroup{x[g]}; }, row_parts_of<MatrixGroup>,
      [&](const Batch<MatrixGroup>& batch) {
        device_->launch(batch.blocks, Rescale{batch, scales, exponent});
      });
}

}  // namespace shampoo::kernels::cuda
