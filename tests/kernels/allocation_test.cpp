// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "tests/kernels/square_batch.h"
#include "tests/kernels/table.h"
#include "tests/support/allocations.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/device/backends.h"
#include "tests/support/device/staging_backend.h"

namespace shampoo::test {
namespace {

using kernels::Eigensolver;

/// Decompositions may ask for memory, within OpenBLAS; nothing else may at all.
Allocations of_decompositions(kernels::Backend& backend,
                              std::span<const kernels::SquareMatrixBatch> a, std::int32_t* failed) {
  const AllocationCounter counter;
  for (const Eigensolver solver : {Eigensolver::divide_and_conquer, Eigensolver::jacobi})
    backend.eigh(a, solver, failed);
  return counter.count();
}

TEST(AfterReserve, NoCallAllocatesNotEvenTheFirst) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer hides allocations";
  for (const Type type : {Type::float32, Type::float64}) {
    const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 3});
    std::vector<TensorCase> cases;
    for (std::uint64_t i = 0; i < 12; ++i)
      cases.push_back({.shape = {70 + static_cast<std::int64_t>(i) * 20, 90, 2},
                       .coefficients = {.l2 = 0.1, .decay = 0.1},
                       .seed = i});
    Table t(cases, type);
    const std::vector<std::int64_t> sides = {90, 90, 200};
    SquareBatch<double> a(sides), b(sides), c(sides), d(sides);
    for (std::size_t m = 0; m < 3; ++m) fill_wishart<double>(a.side(m), 200, m, a.matrix(m));
    std::vector<double> column(3, 0.5), epsilons(3, 1e-3);
    std::vector<std::int32_t> failed(3);
    const kernels::PassContext phase = t.phase();
    const std::vector<kernels::Selection> selected = t.selected();
    kernels::ScanResult result;
    const kernels::GradientPass gradients = t.gradient_pass();
    backend->reserve(t.stacks, type, {200});

    const AllocationCounter counter;
    backend->scan(phase.elements, &t.scale, true, &result);
    backend->accumulate_factors(phase, t.stacks, selected, nullptr);
    backend->filter(phase, gradients);
    backend->unpack_factors(a.pairs(), {.scales = column.data(), .shifts = column.data()},
                            b.squares());
    backend->root_spectrum(a.squares(), {.epsilons = column.data(), .exponents = column.data()});
    backend->reconstruct(a.squares(), b.squares());
    backend->pack_roots(b.squares(), {}, a.pairs(), failed.data());
    backend->multiply(b.squares(), b.squares(), a.squares(), nullptr);
    backend->measure(a.squares(), kernels::Measure::frobenius, column.data(), nullptr);
    backend->convert(b.squares(), c.squares(), kernels::Form::half);
    backend->multiply_symmetric(c.squares(), c.squares(), kernels::Form::half, {}, c.squares(),
                                a.squares(), kernels::Form::dense);
    backend->damp(b.squares(), a.squares(),
                  {.epsilons = epsilons.data(),
                   .kappa_max = 100,
                   .scales = column.data(),
                   .clamped = epsilons.data()},
                  c.squares(), d.squares(), kernels::Form::split);
    backend->check_identity(b.squares(), kernels::Form::dense, 0.5, nullptr, nullptr,
                            failed.data());
    backend->precondition(phase, t.stacks, selected, t.direction.data(), t.direction_norms.data());
    backend->update(phase, t.update_pass(kernels::AveragingRule::momentum));
    if (backend->has_block_passes())
      backend->precondition_and_update(phase, gradients, t.stacks, selected,
                                       t.direction_norms.data(),
                                       t.update_pass(kernels::AveragingRule::momentum));
    const Allocations count = counter.count();

    EXPECT_EQ(count.total(), 0) << count.heap << " heap, " << count.mapped << " mapped";
    EXPECT_EQ(of_decompositions(*backend, a.squares(), failed.data()).outside_blas(), 0);
  }
}

template <typename Real>
Allocations of_small_products(kernels::Backend& backend, std::int64_t side) {
  Table t({{.shape = {side, side / 2 + 1}, .coefficients = {.l2 = 0.1}}}, type_of<Real>);
  SquareBatch<Real> a({side}), b({side});
  fill_wishart<Real>(side, side, 1, a.matrix(0));
  const std::vector<kernels::Selection> selected = t.selected();
  backend.reserve(t.stacks, type_of<Real>, {side});

  const AllocationCounter counter;
  backend.accumulate_factors(t.phase(), t.stacks, selected, nullptr);
  backend.precondition(t.phase(), t.stacks, selected, t.direction.data(), t.direction_norms.data());
  backend.multiply(a.squares(), a.squares(), b.squares(), nullptr);
  backend.multiply_symmetric(a.squares(), a.squares(), kernels::Form::split, {}, a.squares(),
                             b.squares(), kernels::Form::dense);
  backend.reconstruct(a.squares(), b.squares());
  return counter.count();
}

template <typename Real>
Allocations of_decomposition(kernels::Backend& backend, std::int64_t side) {
  SquareBatch<Real> a({side});
  fill_wishart<Real>(side, side, 1, a.matrix(0));
  std::int32_t failed = 0;
  return of_decompositions(backend, a.squares(), &failed);
}

TEST(AfterReserve, SmallProductsOfAnySideDoNotAllocateAndDecompositionsOnlyWithinBlas) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer hides allocations";
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  for (std::int64_t side = 1; side <= 134; ++side) {
    EXPECT_EQ(of_small_products<float>(*backend, side).total(), 0) << side;
    EXPECT_EQ(of_small_products<double>(*backend, side).total(), 0) << side;
    EXPECT_EQ(of_decomposition<float>(*backend, side).outside_blas(), 0) << side;
    EXPECT_EQ(of_decomposition<double>(*backend, side).outside_blas(), 0) << side;
  }
}

class Reserve : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    require(GetParam());
    if (!IsSkipped() && !HasFatalFailure()) backend = backend_with_host_arrays(GetParam(), 1);
  }

  std::unique_ptr<kernels::Backend> backend;
};

TEST_P(Reserve, SufficesForTheSmallestBlocks) {
  for (const Type type : {Type::float32, Type::float64}) {
    backend = backend_with_host_arrays(GetParam(), 1);
    Table t({{.shape = {2, 1}, .coefficients = {.l2 = 1}}}, type);
    backend->reserve(t.stacks, type, {2});

    backend->accumulate_factors(t.phase(), t.stacks, t.selected(), nullptr);
    backend->precondition(t.phase(), t.stacks, t.selected(), t.direction.data(),
                          t.direction_norms.data());

    EXPECT_GT(t.direction_norms[0], 0);
  }
}

TEST_P(Reserve, IsNeededBeforeMatrixWork) {
  // Tests before this one reserve memory of the program's backend.
  if (GetParam() == Place::cuda)
    backend = std::make_unique<StagingBackend>(with_kernels(cuda_backend()));
  Table t({{.shape = {5, 6}, .coefficients = {.l2 = 1}}}, Type::float32);

  EXPECT_THROW(backend->accumulate_factors(t.phase(), t.stacks, t.selected(), nullptr),
               std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Reserve, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
