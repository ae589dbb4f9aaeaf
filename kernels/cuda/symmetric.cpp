// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/cuda/gemm/square_matrix_kernels.h"
#include "kernels/cuda/gemm/symmetric_kernels.h"
#include "kernels/cuda/gemm/tile_class.h"
#include "kernels/cuda/symmetric_terms.h"

namespace shampoo::kernels::cuda {

namespace {

/// Numbers of matrices in the order of a batch.
void measure_in_batch(Device& device, const Batch<MatrixGroup>& batch, Number what,
                      double* partials, double* numbers, Form form = Form::dense) {
  device.launch(batch.blocks, MeasureParts{batch, what, nullptr, partials, form});
  device.launch(batch.matrices(), MeasureMatrices{batch, what, nullptr, partials, numbers, true});
}

template <typename Group>
Batch<MatrixGroup> one_of(const Batch<Group>& batch, SquareMatrixBatch Group::*which) {
  Batch<MatrixGroup> result;
  for (int g = 0; g < batch.count; ++g) result.add({batch.groups[g].*which}, batch.parts[g]);
  return result;
}

std::int64_t thread_blocks(std::int64_t matrices, int threads) {
  return ceiling(matrices, threads);
}

/// Products of matrices that have forms: the sums of a library in scratch memory, of as many as
/// fit, and what a kernel makes of them.
class SymmetricProducts {
 public:
  SymmetricProducts(Device& device, Workspace& workspace, const LinearCombination& combination)
      : device_(device), workspace_(workspace), combination_(combination) {}

  void add(const SymmetricProductGroup& all) {
    for (std::int64_t done = 0; done < all.count();) {
      SymmetricProductGroup group =
          all.range(done, std::min(sums_.fitting(all.x.side), all.count() - done));
      if (group.count() == 0 || combination_.batch.count == combination_.batch.capacity) {
        combine();
        sums_ = workspace_.sums(all.x.side);
        continue;
      }
      group.product = group.x;
      group.product.data = sums_.take(group.x.side, group.count());
      const SymmetricTerms terms = terms_of(group, combination_.operands);
      for (int t = 0; t < terms.count; ++t) device_.multiply(terms.products[t]);
      combination_.batch.add(group, lower_tiles(group.x.side, mirrored_side));
      done += group.count();
    }
  }

  /// What was added and not combined yet.
  void combine() {
    if (combination_.batch.count > 0) device_.launch(combination_.batch.blocks, combination_);
    combination_.batch = {};
  }

 private:
  Device& device_;
  Workspace& workspace_;
  LinearCombination combination_;
  Workspace::Sums sums_;
};

}  // namespace

void DeviceBackend::normalize(std::span<const SquareMatrixBatch> a, double* scales,
                              std::span<const SquareMatrixBatch> c, Form form) {
  double* const partials = workspace_.partials();
  for_each_pair_batch(
      a, c, row_parts_of<MatrixPairGroup>,
      [&](const Batch<MatrixPairGroup>& batch) {
        const Batch<MatrixGroup> measured = one_of(batch, &MatrixPairGroup::x);
        constexpr Number what = Number::power_of_two;
        device_->launch(batch.blocks, MeasureParts{measured, what, nullptr, partials});
        device_->launch(batch.matrices(),
                        MeasureMatrices{measured, what, nullptr, partials, scales, false});
        device_->launch(batch.blocks, Convert{batch, scales, form});
      },
      Workspace::rows);
}

void DeviceBackend::damp(std::span<const SquareMatrixBatch> a,
                         std::span<const SquareMatrixBatch> squared, const Damping& damping,
                         std::span<const SquareMatrixBatch> m, std::span<const SquareMatrixBatch> n,
                         Form form) {
  double* const partials = workspace_.partials();
  double* const row_sums = workspace_.numbers();
  double* const norms = row_sums + Workspace::rows;
  auto* const shifts = reinterpret_cast<DampingShift*>(norms + Workspace::rows);
  for_each_batch<DampingGroup>(
      a.size(),
      [&](std::size_t g) {
        return DampingGroup{a[g], squared[g], m[g], n[g]};
      },
      row_parts_of<DampingGroup>,
      [&](const Batch<DampingGroup>& batch) {
        measure_in_batch(*device_, one_of(batch, &DampingGroup::x), Number::largest_row_sum,
                         partials, row_sums, form);
        measure_in_batch(*device_, one_of(batch, &DampingGroup::squared), Number::frobenius,
                         partials, norms);
        device_->launch(thread_blocks(batch.matrices(), FindShifts::threads),
                        FindShifts{batch, damping, row_sums, norms, shifts});
        device_->launch(batch.blocks, Damp{batch, damping.polynomial, shifts, form});
      },
      Workspace::rows);
}

void DeviceBackend::convert(std::span<const SquareMatrixBatch> a,
                            std::span<const SquareMatrixBatch> c, Form form) {
  for_each_pair_batch(a, c, row_parts_of<MatrixPairGroup>,
                      [&](const Batch<MatrixPairGroup>& batch) {
                        device_->launch(batch.blocks, Convert{batch, nullptr, form});
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
  const auto by_library = [&](std::size_t g) {
    return is_written_by_library(a[g], operands, weights, form);
  };
  SymmetricProducts products(*device_, workspace_, {{}, operands, weights, form});
  for (std::size_t g = 0; g < a.size(); ++g) {
    const SymmetricProductGroup group{a[g], b[g], d[g], {}, c[g]};
    if (by_library(g))
      device_->multiply(product_of_halves(group, weights, form));
    else if (has_forms(a[g]))
      products.add(group);
  }
  products.combine();
  if (weights.identity == 0) return;
  for_each_batch<MatrixGroup>(
      a.size(), [&](std::size_t g) { return by_library(g) ? MatrixGroup{c[g]} : MatrixGroup{}; },
      one_part<MatrixGroup>,
      [&](const Batch<MatrixGroup>& batch) {
        device_->launch(batch.blocks, AddIdentity{batch, weights.identity, form});
      });
}

void DeviceBackend::add_symmetric_products(std::int64_t side, std::vector<Product>& products) {
  SquareMatrixBatch a{.type = Type::float32, .side = side, .count = 1};
  if (!has_forms(a)) return;
  // As aligned as a solver's matrices.
  a.data = workspace_.sums(side).take(side, 1);
  SquareMatrixBatch other = a;
  other.data = nullptr;
  const SymmetricProductGroup square{a, a, a, a, a}, product{a, other, a, a, a};
  for (const SymmetricTerms& terms :
       {terms_of(square, Form::split), terms_of(product, Form::split)})
    products.insert(products.end(), terms.products.begin(), terms.products.begin() + terms.count);
  // Dense, they have the key of the first term.
  products.push_back(product_of_halves(square, {}, Form::half));
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

}  // namespace shampoo::kernels::cuda
