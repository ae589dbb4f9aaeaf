// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/kernels/bits.h"
#include "tests/kernels/square_batch.h"
#include "tests/support/counting_backend.h"
#include "tests/support/root_solver.h"

namespace shampoo::test {
namespace {

constexpr std::int64_t batch_sides[] = {1, 2, 17, 64, 65, 100};

/// What the solver's primitives leave behind, matrix by matrix.
template <typename Real>
std::vector<Bytes> solve(kernels::Backend& backend, const std::vector<std::int64_t>& sides,
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
                                      .clamped = numbers.data()});
  record(a);
  backend.reconstruct(a.squares(), c.squares());
  record(c);
  backend.pack_roots(c.squares(), {}, a.pairs(), failed.data());
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
  const std::unique_ptr<kernels::Backend> one = backend_with_host_arrays(place, 1);
  one->reserve({}, Type::float64, {100});
  for (const std::int64_t side : batch_sides)
    for (std::uint64_t seed = 1; seed <= 9; ++seed)
      alone[{side, seed}] = solve<Real>(*one, {side}, {seed}).front();

  for (int threads = 1; threads <= most_threads(place); ++threads) {
    const std::unique_ptr<kernels::Backend> another = backend_with_host_arrays(place, threads);
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
std::vector<Bytes> roots(kernels::Backend& backend, const Solver& solver, Type type,
                         std::int64_t side, const std::vector<std::uint64_t>& seeds) {
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

/// Chunks of solvers hold one or two matrices.
class SmallChunks : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  std::size_t chunk_bytes(std::size_t) const override { return 1; }
};

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
      const std::unique_ptr<kernels::Backend> one = backend_with_host_arrays(place(), 1);
      for (std::uint64_t seed = 0; seed < seeds(); ++seed)
        alone.push_back(roots(*one, solver(), type, side, {seed + 1}).front());
      for (int threads = 1; threads <= most_threads(place()); ++threads) {
        const std::unique_ptr<kernels::Backend> backend =
            backend_with_host_arrays(place(), threads);
        for (const std::uint64_t batch : batches(place())) {
          std::vector<std::uint64_t> some;
          for (std::uint64_t i = 0; i < batch; ++i) some.push_back((batch + 2 * i) % seeds() + 1);
          const std::vector<Bytes> found = roots(*backend, solver(), type, side, some);
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_EQ(found[i], alone[some[i] - 1]) << "side " << side;
          SmallChunks chunks(*backend);
          ASSERT_EQ(roots(chunks, solver(), type, side, some), found) << "side " << side;
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
