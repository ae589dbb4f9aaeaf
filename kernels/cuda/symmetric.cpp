// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/cuda/gemm/square_matrix_kernels.h"
#include "kernels/cuda/gemm/symmetric_kernels.h"
#include "kernels/cuda/gemm/tile_class.h"

namespace shampoo::kernels::cuda {

namespace {

/// Numbers of matrices in the order of a batch.
void measure_in_batch(Device& device, const Batch<MatrixGroup>& batch, Number what,
                      double* partials, double* numbers, Form form = Form::dense) {
  device.launch(batch.blocks, MeasureParts{batch, what, nullptr, partials, form});
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

/// The high or low parts of matrices that are split; null where only plans are made.
Matrices parts_of(const SquareMatrixBatch& squares, bool low, bool transposed) {
  const std::int64_t n = squares.side;
  auto* const high = static_cast<Float16*>(squares.data);
  return {low && high != nullptr ? high + n * n : high, Type::float16, n, 2 * n * n, transposed};
}

/// From this side on, half squares are made in two panels of rows that have the lower triangle: 3/4
/// of the operations. Where sides are shorter, a second launch takes longer than it saves.
constexpr std::int64_t least_side_of_panels = 512;

/// Products of parts, or panels, that P is made of. That of both low parts, 2^-22 of the whole, is
/// left out.
struct Terms {
  std::array<Product, 3> products;
  int count = 1;
};

Terms terms_of(const SymmetricProductGroup& group, Form operands) {
  const std::int64_t n = group.x.side;
  const auto term = [&](bool low_a, bool low_b, double alpha, double beta) -> Product {
    return {n, n, n, group.count(), parts_of(group.x, low_a, false),
            // Symmetric: as its transpose, both operands are read along the sum.
            parts_of(group.b, low_b, true), group.product.data, Type::float32, n, n * n, alpha,
            beta};
  };
  Terms terms;
  terms.products[0] = term(false, false, 1, 0);
  if (is_half_square(group, operands) && n >= least_side_of_panels) {
    Product& top = terms.products[0];
    Product& bottom = terms.products[terms.count++] = top;
    const std::int64_t middle = ceiling(n, 2 * mirrored_side) * mirrored_side;
    top.rows = top.columns = middle;
    bottom.rows = n - middle;
    bottom.a.data = static_cast<const Float16*>(bottom.a.data) + middle * n;
    bottom.c = static_cast<float*>(bottom.c) + middle * n;
  }
  if (operands == Form::half) return terms;
  constexpr double unit = 1.0 / static_cast<double>(FormedMatrix::low_scale);
  if (group.x.data == group.b.data) {
    // hi lo + lo hi is twice the mean of hi lo and its transpose.
    terms.products[terms.count++] = term(false, true, 2 * unit, 1);
    return terms;
  }
  terms.products[terms.count++] = term(false, true, unit, 1);
  terms.products[terms.count++] = term(true, false, unit, 1);
  return terms;
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

void DeviceBackend::convert(std::span<const SquareMatrixBatch> a,
                            std::span<const SquareMatrixBatch> c, Form form) {
  for (std::size_t g = 0; g < a.size(); ++g)
    if (!has_forms(a[g]))
      copy(c[g].data, a[g].data,
           static_cast<std::size_t>(a[g].count * a[g].side * a[g].side) * size_of(a[g].type));
  for_each_batch<MatrixPairGroup>(
      a.size(),
      [&](std::size_t g) {
        return has_forms(a[g]) ? MatrixPairGroup{a[g], c[g]} : MatrixPairGroup{};
      },
      row_parts_of<MatrixPairGroup>,
      [&](const Batch<MatrixPairGroup>& batch) {
        device_->launch(batch.blocks, Convert{batch, form});
      });
}

void DeviceBackend::multiply_symmetric(std::span<const SquareMatrixBatch> a,
                                       std::span<const SquareMatrixBatch> b, Form operands,
                                       const Weights& weights, std::span<const SquareMatrixBatch> c,
                                       Form form) {
  for_each_tile_class([&]<typename Class>(Class) {
    if constexpr (Class::tile == 64)
      for_each_batch<ThreeOf>(
          a.size(),
          [&](std::size_t g) {
            const bool mine = !has_forms(a[g]) && Class::has(a[g].type, a[g].side);
            return mine ? ThreeOf{a[g], b[g], c[g]} : ThreeOf{};
          },
          [](const ThreeOf& group) { return lower_tiles(group.c.side, Class::tile); },
          [&](const Batch<ThreeOf>& batch) {
            device_->launch(batch.blocks,
                            SymmetricProduct<typename Class::real, Class::tile>{batch, weights});
          });
  });
  LinearCombination combination{{}, operands, weights, form};
  const auto combine = [&] {
    if (combination.batch.count > 0) device_->launch(combination.batch.blocks, combination);
    combination.batch = {};
  };
  Workspace::Sums sums;
  for (std::size_t g = 0; g < a.size(); ++g)
    for (std::int64_t done = 0; has_forms(a[g]) && done < a[g].count;) {
      SquareMatrixBatch product = a[g];
      product.count = std::min(sums.fitting(a[g].side), a[g].count - done);
      if (product.count == 0 || combination.batch.count == Batch<SymmetricProductGroup>::capacity) {
        combine();
        sums = workspace_.sums(product.side);
        continue;
      }
      product.data = sums.take(product.side, product.count);
      const SymmetricProductGroup group{range_of(a[g], done, product.count),
                                        range_of(b[g], done, product.count), product,
                                        range_of(c[g], done, product.count)};
      const Terms terms = terms_of(group, operands);
      for (int t = 0; t < terms.count; ++t) device_->multiply(terms.products[t]);
      combination.batch.add(group, lower_tiles(product.side, mirrored_side));
      done += product.count;
    }
  combine();
}

void DeviceBackend::add_symmetric_products(std::int64_t side, std::vector<Product>& products) {
  SquareMatrixBatch a{.type = Type::float32, .side = side, .count = 1};
  if (!has_forms(a)) return;
  // As aligned as a solver's matrices.
  a.data = workspace_.sums(side).take(side, 1);
  SquareMatrixBatch other = a;
  other.data = nullptr;
  for (const Terms& terms :
       {terms_of({a, a, a, a}, Form::split), terms_of({a, other, a, a}, Form::split),
        terms_of({a, a, a, a}, Form::half)})
    products.insert(products.end(), terms.products.begin(), terms.products.begin() + terms.count);
}

void DeviceBackend::check_identity(std::span<const SquareMatrixBatch> m, Form form, double limit,
                                   const std::int32_t* proceed, const std::uint8_t* active,
                                   std::int32_t* failed) {
  double* const partials = workspace_.partials();
  double* const distances = workspace_.numbers();
  for_each_batch<MatrixGroup>(
      m.size(), [&](std::size_t g) { return MatrixGroup{m[g]}; }, row_parts_of<MatrixGroup>,
      [&](const Batch<MatrixGroup>& batch) {
        measure_in_batch(*device_, batch, Number::distance_from_identity, partials, distances,
                         form);
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
