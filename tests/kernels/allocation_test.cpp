// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/cpu_backend.h"
#include "tests/kernels/square_batch.h"
#include "tests/kernels/table.h"
#include "tests/support/allocations.h"

namespace shampoo::test {
namespace {

using kernels::Eigensolver;

TEST(AfterReserve, NoCallAllocatesNotEvenTheFirst) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer hides allocations";
  for (const Type type : {Type::float32, Type::float64}) {
    const std::unique_ptr<Backend> backend = cpu_backend({.threads = 3});
    std::vector<TensorCase> cases;
    for (std::uint64_t i = 0; i < 12; ++i)
      cases.push_back({.shape = {70 + static_cast<std::int64_t>(i) * 20, 90, 2},
                       .coefficients = {.l2 = 0.1, .decay = 0.1},
                       .seed = i});
    Table t(cases, type);
    SquareBatch<double> a({90, 90, 200}), b({90, 90, 200});
    for (std::size_t m = 0; m < 3; ++m) fill_wishart<double>(a.side(m), 200, m, a.matrix(m));
    std::vector<double> column(3, 0.5), epsilons(3, 1e-3);
    std::vector<std::int32_t> failed(3);
    const kernels::PassContext phase = t.phase();
    const std::vector<kernels::Selection> selected = t.selected();
    kernels::ScanResult result;
    backend->reserve(t.stacks, type, {200});

    const AllocationCounter counter;
    backend->scan(phase.elements, &t.scale, true, &result);
    backend->accumulate_factors(phase, t.stacks, selected, nullptr);
    backend->filter(phase, t.gradient_pass());
    backend->load(a.pairs(), {.scales = column.data(), .shifts = column.data()}, b.squares());
    for (const Eigensolver solver : {Eigensolver::divide_and_conquer, Eigensolver::jacobi})
      backend->eigh(a.squares(), solver, failed.data());
    backend->root_spectrum(a.squares(), {.epsilons = column.data(), .exponents = column.data()});
    backend->assemble(a.squares(), b.squares());
    backend->store(b.squares(), a.pairs(), failed.data());
    backend->multiply(b.squares(), b.squares(), a.squares(), nullptr);
    backend->measure(a.squares(), kernels::Measure::frobenius, column.data(), nullptr);
    backend->normalize(b.squares(), column.data());
    backend->multiply_symmetric(b.squares(), b.squares(), {}, kernels::Precision::half,
                                a.squares());
    backend->damp(b.squares(), a.squares(),
                  {.epsilons = epsilons.data(),
                   .kappa_max = 100,
                   .scales = column.data(),
                   .raised = epsilons.data()});
    backend->check_identity(b.squares(), 0.5, nullptr, nullptr, failed.data());
    backend->rescale(b.squares(), column.data(), 0.5);
    backend->precondition(phase, t.stacks, selected, t.direction.data(), t.direction_norms.data());
    backend->update(phase, t.update_pass(kernels::AveragingRule::momentum));
    const Allocations count = counter.count();

    EXPECT_EQ(count.total(), 0) << count.heap << " heap, " << count.mapped << " mapped";
  }
}

template <typename Real>
Allocations of_small_products(Backend& backend, std::int64_t side) {
  Table t({{.shape = {side, side / 2 + 1}, .coefficients = {.l2 = 0.1}}}, type_of<Real>);
  SquareBatch<Real> a({side}), b({side});
  fill_wishart<Real>(side, side, 1, a.matrix(0));
  const std::vector<kernels::Selection> selected = t.selected();
  std::int32_t failed = 0;
  backend.reserve(t.stacks, type_of<Real>, {side});

  const AllocationCounter counter;
  backend.accumulate_factors(t.phase(), t.stacks, selected, nullptr);
  backend.precondition(t.phase(), t.stacks, selected, t.direction.data(), t.direction_norms.data());
  backend.multiply(a.squares(), a.squares(), b.squares(), nullptr);
  backend.eigh(a.squares(), Eigensolver::divide_and_conquer, &failed);
  backend.assemble(a.squares(), b.squares());
  return counter.count();
}

TEST(AfterReserve, SmallProductsAndDecompositionsOfAnySideDoNotAllocate) {
  if (!AllocationCounter::sees_everything()) GTEST_SKIP() << "a sanitizer hides allocations";
  const std::unique_ptr<Backend> backend = cpu_backend({.threads = 1});
  for (std::int64_t side = 1; side <= 134; ++side) {
    EXPECT_EQ(of_small_products<float>(*backend, side).total(), 0) << side;
    EXPECT_EQ(of_small_products<double>(*backend, side).total(), 0) << side;
  }
}

}  // namespace
}  // namespace shampoo::test
