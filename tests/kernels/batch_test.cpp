// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/kernels/square_batch.h"
#include "tests/kernels/table.h"
#include "tests/support/backends.h"
#include "tests/support/root_solver.h"

// A block's result has the same bits alone, in a stack of any size, beside other shapes, and on any
// number of threads.

namespace shampoo::test {
namespace {

using kernels::Mode;
using Bytes = std::vector<std::byte>;

void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(from);
  to.insert(to.end(), first, first + bytes);
}

kernels::Coefficients some_coefficients(std::size_t i) {
  return {.l2 = i % 2 == 0 ? 0.0 : 0.25,
          .factor_keep = 0.9,
          .factor_add = 0.1 + static_cast<double>(i) / 64,
          .first_weight = 0.1,
          .filter_weight = 0.2,
          .filter_scale = 1.5,
          .grafting = {.keep = 0.9, .add = 0.1, .epsilon = 1e-8},
          .decay = 0.1,
          .momentum = 0.9,
          .step = -1e-3};
}

TensorCase some_case(const std::vector<std::int64_t>& shape, std::size_t i) {
  constexpr Layout layouts[] = {Layout::packed, Layout::shifted, Layout::padded, Layout::spread};
  constexpr Type types[] = {Type::float32, Type::float64, Type::float32, Type::bfloat16};
  return {.shape = shape,
          .value = types[i % 4],
          .gradient = types[i % 4],
          .layout = layouts[i % 4],
          .shipped = types[i % 4],
          .assigns = false,
          .mode = Mode::preconditioned,
          .coefficients = some_coefficients(i),
          .seed = i + 1};
}

/// Roots of all factors through the primitives of an eigendecomposition.
void refresh(Backend& backend, Table& t) {
  std::vector<kernels::FactorBatch> pairs;
  std::vector<kernels::SquareMatrixBatch> a, x;
  std::vector<std::vector<void*>> arrays;
  std::int64_t rows = 0;
  const std::size_t element = size_of(t.arithmetic);
  std::vector<Bytes> memory;
  for (const kernels::Stack& stack : t.stacks)
    for (std::size_t k = 0; k < stack.extent.size(); ++k) {
      const std::int64_t n = stack.extent[k];
      auto& list = arrays.emplace_back();
      for (std::int64_t i = 0; i < stack.count; ++i)
        list.push_back(static_cast<std::byte*>(stack.factors[k]) +
                       static_cast<std::size_t>(i * n * (n + 1)) * element);
      const auto bytes = static_cast<std::size_t>(stack.count * n * n) * element;
      for (auto* group : {&a, &x}) {
        memory.emplace_back(bytes);
        group->push_back({t.arithmetic, n, stack.count, rows, memory.back().data()});
      }
      memory.emplace_back(static_cast<std::size_t>(stack.count * n) * element);
      a.back().values = memory.back().data();
      pairs.push_back({t.arithmetic, n, stack.count, rows, list.data()});
      rows += stack.count;
    }
  const auto count = static_cast<std::size_t>(rows);
  const std::vector<double> scales(count, 1.25), shifts(count, 3.0), epsilons(count, 3.0),
      exponents(count, 0.25);
  std::vector<std::int32_t> failed(count);
  backend.load(pairs, {.scales = scales.data(), .shifts = shifts.data()}, a);
  backend.eigh(a, kernels::Eigensolver::divide_and_conquer, failed.data());
  backend.root_spectrum(a, {.epsilons = epsilons.data(), .exponents = exponents.data()});
  backend.assemble(a, x);
  backend.store(x, pairs, failed.data());
}

/// One step with every primitive; what it leaves behind, for every tensor by its seed.
std::map<std::uint64_t, Bytes> step(Backend& backend, Table& t) {
  std::int64_t side = 0;
  for (const kernels::Stack& stack : t.stacks)
    for (const std::int64_t n : stack.extent) side = std::max(side, n);
  backend.reserve(t.stacks, t.arithmetic, {side});
  const kernels::PassContext phase = t.phase();
  backend.accumulate_factors(phase, t.stacks, t.selected(), t.masters.data());
  refresh(backend, t);
  backend.filter(phase, t.gradient_pass());
  backend.precondition(phase, t.stacks, t.selected(), t.direction.data(), t.direction_norms.data());
  backend.update(phase, t.update_pass(kernels::AveragingRule::nesterov));

  std::map<std::uint64_t, Bytes> result;
  for (std::size_t b = 0; b < t.blocks.size(); ++b) {
    const kernels::Block& block = t.blocks[b];
    Bytes& bytes = result[t.cases[static_cast<std::size_t>(block.tensor)].seed];
    const auto elements = static_cast<std::size_t>(block.elements);
    for (const Bytes* slot : {&t.first_moment, &t.grafting_moment, &t.direction, &t.momentum})
      append(bytes, slot->data() + static_cast<std::size_t>(block.flat) * size_of(t.arithmetic),
             elements * size_of(t.arithmetic));
    append(bytes, &t.grafting_norms[b], sizeof(double));
    append(bytes, &t.direction_norms[b], sizeof(double));
    append(bytes, t.segment.data() + block.segment, elements * size_of(block.shipped));
  }
  for (std::size_t s = 0; s < t.stacks.size(); ++s)
    for (std::size_t k = 0; k < t.stacks[s].extent.size(); ++k)
      for (std::int64_t i = 0; i < t.stacks[s].count; ++i) {
        const std::int64_t n = t.stacks[s].extent[k];
        const auto size = static_cast<std::size_t>(n * (n + 1)) * size_of(t.arithmetic);
        const auto block = static_cast<std::size_t>(t.stacks[s].first_block + i);
        append(result[t.cases[static_cast<std::size_t>(t.blocks[block].tensor)].seed],
               t.factors[s][k].data() + static_cast<std::size_t>(i) * size, size);
      }
  return result;
}

/// Threads are the CPU's business.
int most_threads(Place place) { return place == Place::cpu ? 3 : 1; }

/// An emulated device takes its time.
std::vector<std::uint64_t> batches(Place place) {
  if (place == Place::emulated) return {2, 3};
  return {1, 2, 3, 4, 5, 6, 7, 8, 9};
}

class StepBits : public ::testing::TestWithParam<std::tuple<Type, Place>> {
 protected:
  void SetUp() override { require(std::get<1>(GetParam())); }
};

TEST_P(StepBits, AreTheSameAloneInAnyStackAndOnAnyNumberOfThreads) {
  const auto [type, place] = GetParam();
  const std::vector<std::vector<std::int64_t>> shapes = {{},        {97},      {64, 64}, {65, 33},
                                                         {129, 70}, {3, 5, 7}, {200, 96}};
  const Cut cut{.block_side = 130, .tile_elements = 900};
  std::vector<TensorCase> all;
  for (std::size_t i = 0; i < 9; ++i)
    for (const auto& shape : shapes) all.push_back(some_case(shape, all.size()));

  std::map<std::uint64_t, Bytes> alone;
  const std::unique_ptr<Backend> one = backend_with_host_arrays(place, 1);
  for (const TensorCase& c : all) {
    Table t({c}, type, cut);
    alone.merge(step(*one, t));
  }

  for (int threads = 1; threads <= most_threads(place); ++threads) {
    const std::unique_ptr<Backend> backend = backend_with_host_arrays(place, threads);
    for (const std::uint64_t batch : batches(place)) {
      // Other members and another order in every batch.
      std::vector<TensorCase> some;
      for (std::size_t i = 0; i < batch * shapes.size(); ++i)
        some.push_back(all[(i * 2 + batch * 5) % all.size()]);
      Table t(some, type, cut);
      for (const auto& [seed, bytes] : step(*backend, t))
        ASSERT_EQ(bytes, alone[seed])
            << threads << " threads, batch of " << batch << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, StepBits,
                         ::testing::Combine(::testing::Values(Type::float32, Type::float64),
                                            ::testing::ValuesIn(all_places)),
                         [](const auto& tested) {
                           return name_of(std::get<1>(tested.param)) + "_" +
                                  std::string(name_of(std::get<0>(tested.param)));
                         });

constexpr std::int64_t batch_sides[] = {1, 2, 17, 64, 65, 100};

/// What the solver's primitives leave behind, matrix by matrix.
template <typename Real>
std::vector<Bytes> solve(Backend& backend, const std::vector<std::int64_t>& sides,
                         const std::vector<std::uint64_t>& seeds) {
  SquareBatch<Real> a(sides), b(sides), c(sides);
  const std::size_t count = sides.size();
  std::vector<double> scales(count), shifts(count), numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    fill_wishart<Real>(sides[i], sides[i] + 3, seeds[i], a.matrix(i));
    fill_wishart<Real>(sides[i], 5, seeds[i] + 50, b.matrix(i));
    scales[i] = 0.5 + static_cast<double>(seeds[i]) / 7;
    shifts[i] = 1.0 / static_cast<double>(seeds[i]);
  }
  std::vector<Bytes> result(count);
  const auto record = [&](SquareBatch<Real>& batch) {
    for (std::size_t i = 0; i < count; ++i) {
      append(result[i], batch.matrix(i).data(), batch.matrix(i).size_bytes());
      append(result[i], batch.values(i).data(), batch.values(i).size_bytes());
      append(result[i], &numbers[i], sizeof(double));
    }
  };
  backend.multiply(a.squares(), b.squares(), c.squares(), nullptr);
  record(c);
  backend.combine(scales.data(), a.squares(), shifts.data(), b.squares(), nullptr);
  record(b);
  for (const auto what : {kernels::Measure::frobenius, kernels::Measure::largest_row_sum,
                          kernels::Measure::trace, kernels::Measure::distance_from_identity}) {
    backend.measure(a.squares(), what, numbers.data(), nullptr);
    record(c);
  }
  std::vector<std::int32_t> failed(count);
  backend.eigh(b.squares(), kernels::Eigensolver::jacobi, failed.data());
  record(b);
  backend.eigh(a.squares(), kernels::Eigensolver::divide_and_conquer, failed.data());
  record(a);
  backend.root_spectrum(a.squares(), {.relative_floor = 1e-6,
                                      .epsilons = shifts.data(),
                                      .exponents = scales.data(),
                                      .raised = numbers.data()});
  record(a);
  backend.assemble(a.squares(), c.squares());
  record(c);
  backend.store(c.squares(), a.pairs(), failed.data());
  for (std::size_t i = 0; i < count; ++i)
    append(result[i], a.pair(i).data(), a.pair(i).size_bytes());
  return result;
}

template <typename Tested>
class SolverBits : public AtPlace<Tested> {};
TYPED_TEST_SUITE(SolverBits, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(SolverBits, AreTheSameAloneInAnyBatchAndOnAnyNumberOfThreads) {
  using Real = typename TypeParam::Real;
  constexpr Place place = TypeParam::place;
  std::map<std::pair<std::int64_t, std::uint64_t>, Bytes> alone;
  const std::unique_ptr<Backend> one = backend_with_host_arrays(place, 1);
  one->reserve({}, Type::float64, {100});
  for (const std::int64_t side : batch_sides)
    for (std::uint64_t seed = 1; seed <= 9; ++seed)
      alone[{side, seed}] = solve<Real>(*one, {side}, {seed}).front();

  for (int threads = 1; threads <= most_threads(place); ++threads) {
    const std::unique_ptr<Backend> another = backend_with_host_arrays(place, threads);
    another->reserve({}, Type::float64, {100});
    for (const std::uint64_t batch : batches(place)) {
      std::vector<std::int64_t> sides;
      std::vector<std::uint64_t> seeds;
      for (const std::int64_t side : batch_sides)
        for (std::uint64_t i = 0; i < batch; ++i) {
          sides.push_back(side);
          seeds.push_back((i + batch) % 9 + 1);
        }
      const std::vector<Bytes> found = solve<Real>(*another, sides, seeds);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const bool is_equal = found[i] == alone[{sides[i], seeds[i]}];
        ASSERT_TRUE(is_equal) << threads << " threads, batch of " << batch << ", side " << sides[i];
      }
    }
  }
}

/// Roots of Wishart matrices with these seeds by a solver over the primitives.
std::vector<Bytes> roots(Backend& backend, const Solver& solver, Type type, std::int64_t side,
                         const std::vector<std::uint64_t>& seeds) {
  const auto elements = static_cast<std::size_t>(side * (side + 1));
  std::vector<Bytes> pairs(seeds.size(), Bytes(elements * size_of(type)));
  std::vector<kernels::RootJob> jobs;
  for (std::size_t m = 0; m < seeds.size(); ++m) {
    std::vector<double> a(static_cast<std::size_t>(side * side));
    fill_wishart<double>(side, side + 2, seeds[m], a);
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t j = 0; j <= i; ++j)
        write(pairs[m].data() + static_cast<std::size_t>(i * (side + 1) + j) * size_of(type), type,
              a[static_cast<std::size_t>(i * side + j)]);
    jobs.push_back({.pair = pairs[m].data(), .side = side, .exponent = 0.25, .epsilon = 1e-3});
  }
  RootSolver(backend, type, solver, 0, jobs).solve(jobs);
  for (const kernels::RootJob& job : jobs) EXPECT_EQ(job.outcome, kernels::Outcome::computed);
  return pairs;
}

struct SolverCase {
  const char* name;
  Solver solver;
};
void PrintTo(const SolverCase& solver, std::ostream* out) { *out << solver.name; }

const SolverCase solvers[] = {{"Automatic", Automatic{}},
                              {"EigenAfter", Eigen{.perturb_before = false}},
                              {"Newton", CoupledNewton{}},
                              {"HigherOrder", CoupledHigherOrder{.relative_epsilon = 1e-4}},
                              {"Minimax", Minimax{}}};

class RootBits : public ::testing::TestWithParam<std::tuple<SolverCase, Place>> {
 protected:
  void SetUp() override { require(place()); }

  static const Solver& solver() { return std::get<0>(GetParam()).solver; }
  static Place place() { return std::get<1>(GetParam()); }

  /// One element; part of a tile of 64; part of one of 128, or, in float64, of four of 64.
  static constexpr std::int64_t sides[] = {1, 13, 66};
  static std::uint64_t seeds() { return place() == Place::emulated ? 3 : 9; }
};

TEST_P(RootBits, AreTheSameForEverySolverOverThePrimitives) {
  for (const Type type : {Type::float32, Type::float64})
    for (const std::int64_t side : sides) {
      std::vector<Bytes> alone;
      const std::unique_ptr<Backend> one = backend_with_host_arrays(place(), 1);
      one->reserve({}, type, {side});
      for (std::uint64_t seed = 0; seed < seeds(); ++seed)
        alone.push_back(roots(*one, solver(), type, side, {seed + 1}).front());
      for (int threads = 1; threads <= most_threads(place()); ++threads) {
        const std::unique_ptr<Backend> backend = backend_with_host_arrays(place(), threads);
        backend->reserve({}, type, {side});
        for (const std::uint64_t batch : batches(place())) {
          std::vector<std::uint64_t> some;
          for (std::uint64_t i = 0; i < batch; ++i) some.push_back((batch + 2 * i) % seeds() + 1);
          const std::vector<Bytes> found = roots(*backend, solver(), type, side, some);
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_EQ(found[i], alone[some[i] - 1]) << "side " << side;
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, RootBits,
                         ::testing::Combine(::testing::ValuesIn(solvers),
                                            ::testing::ValuesIn(all_places)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) + "_" +
                                  name_of(std::get<1>(tested.param));
                         });

}  // namespace
}  // namespace shampoo::test
