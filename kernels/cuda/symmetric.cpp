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

static_assert(most_row_parts <= Workspace::rows);

/// Numbers of matrices in the order of a batch.
void measure_in_batch(Device& device, const Batch<MatrixGroup>& batch, Measure what,
                      double* partials, double* numbers, Form form = Form::dense) {
  device.launch(batch.blocks, MeasureParts{batch, what, nullptr, partials, form});
  device.launch(batch.matrices(), MeasureMatrices{batch, what, nullptr, partials, numbers, true});
}

void multiply_terms(Device& device, const SymmetricTerms& terms) {
  for (int t = 0; t < terms.count; ++t) device.multiply(terms.products[t]);
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
      multiply_terms(device_, terms_of(group, combination_.operands));
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
      [](const DampingGroup& group) { return lower_tiles(group.x.side, mirrored_side); },
      [&](const Batch<DampingGroup>& batch) {
        Batch<MatrixGroup> measured;  // of no more parts than there are tiles
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
  weights.check(form);
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
      multiply_terms(*device_, terms_of_result(group, operands, weights, form));
    else if (has_forms(a[g]))
      products.add(group);
  }
  products.combine();
  if (weights.identity == 0) return;
  for_each_batch<MatrixGroup>(
      a.size(), [&](std::size_t g) { return by_library(g) ? MatrixGroup{c[g]} : MatrixGroup{}; },
      one_part<MatrixGroup>,
      [&](const Batch<MatrixGroup>& batch) {
        device_->launch(batch.blocks, AddIdentity{batch, weights.identity});
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
  for (const SymmetricTerms& terms : {terms_of(square, Form::split), terms_of(product, Form::split),
                                      terms_of_result(square, Form::split, {}, Form::unsymmetric),
                                      terms_of_result(square, Form::half, {}, Form::half)})
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
        measure_in_batch(*device_, batch, Measure::distance_from_identity, partials, distances,
                         form);
        device_->launch(thread_blocks(batch.matrices(), CheckIdentity::threads),
                        CheckIdentity{batch, distances, limit, proceed, active, failed});
      },
      Workspace::rows);
}

}  // namespace shampoo::kernels::cuda
