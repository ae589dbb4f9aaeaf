// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <type_traits>

#include "kernels/backend.h"
#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/blas/blas_setup.h"
#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/householder.h"
#include "kernels/cpu/threads/scratch.h"
#include "tests/kernels/square_batch.h"
#include "tests/kernels/table.h"
#include "tests/support/cpu_kernels.h"

// The CPU kernels beside the raw speed of what they are made of: `gflops` against gemm and syrk of
// BLAS, `bytes_per_second` (what a kernel must read and write) against a copy of the same size.

namespace {

using namespace shampoo;
using namespace shampoo::test;

/// Blocks of one shape, about as many elements in all as given.
std::vector<TensorCase> blocks_of(std::int64_t side, std::int64_t elements) {
  std::vector<TensorCase> cases;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, elements / (side * side)); ++i)
    cases.push_back({.shape = {side, side},
                     .coefficients = {.factor_keep = 0.99,
                                      .factor_add = 0.01,
                                      .first_weight = 0.1,
                                      .filter_weight = 0.1,
                                      .grafting = {.keep = 0.99, .add = 0.01, .epsilon = 1e-8},
                                      .decay = 0.1,
                                      .step = -1e-3},
                     .seed = static_cast<std::uint64_t>(i + 1)});
  return cases;
}

struct Setting {
  explicit Setting(std::int64_t side, std::int64_t elements, int threads)
      : backend(cpu_kernels({.threads = threads})),
        table(blocks_of(side, elements), Type::float32) {
    backend->reserve(table.stacks, Type::float32, {side});
    // Roots near I keep repeated preconditioning in range.
    for (auto& stack : table.factors)
      for (auto& array : stack) std::ranges::fill(array, 0);
    for (kernels::Stack& stack : table.stacks)
      for (void* first : stack.factors)
        for (std::int64_t i = 0; i < stack.count; ++i)
          for (std::int64_t d = 0; d < side; ++d)
            static_cast<float*>(first)[i * side * (side + 1) + d * (side + 2) + 1] = 1;
  }

  double blocks() const { return static_cast<double>(table.blocks.size()); }

  std::unique_ptr<kernels::Backend> backend;
  Table table;
};

constexpr std::int64_t in_memory = std::int64_t{1} << 23;

void rate(benchmark::State& state, double operations) {
  state.counters["gflops"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void per_block(benchmark::State& state, double blocks) {
  state.counters["us_per_block"] = benchmark::Counter(
      blocks * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void accumulate_factors(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  Setting s(n, 1 << 20, static_cast<int>(state.range(1)));
  const kernels::PassContext phase = s.table.phase();
  const auto selected = s.table.selected();
  for (auto _ : state) s.backend->accumulate_factors(phase, s.table.stacks, selected, nullptr);
  const double side = static_cast<double>(n);
  rate(state, s.blocks() * 2 * side * side * (side + 1));
  per_block(state, s.blocks());
}
BENCHMARK(accumulate_factors)
    ->ArgsProduct({{16, 32, 64, 96, 128, 256, 512, 1024}, {1, 2}})
    ->ArgNames({"side", "threads"})
    ->UseRealTime();

void precondition(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  Setting s(n, 1 << 20, static_cast<int>(state.range(1)));
  const kernels::PassContext phase = s.table.phase();
  const auto selected = s.table.selected();
  for (auto _ : state)
    s.backend->precondition(phase, s.table.stacks, selected, s.table.direction.data(),
                            s.table.direction_norms.data());
  const double side = static_cast<double>(n);
  rate(state, s.blocks() * 4 * side * side * side);
  per_block(state, s.blocks());
}
BENCHMARK(precondition)
    ->ArgsProduct({{16, 32, 64, 96, 128, 256, 512, 1024}, {1, 2}})
    ->ArgNames({"side", "threads"})
    ->UseRealTime();

void blas_gemm(benchmark::State& state) {
  kernels::set_up_blas();
  const int n = static_cast<int>(state.range(0));
  Numbers numbers(1);
  const auto a = numbers.some<float>(n * n), b = numbers.some<float>(n * n);
  std::vector<float> c(a);
  for (auto _ : state)
    kernels::blas::gemm('N', 'N', n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
  rate(state, 2.0 * n * n * n);
}
BENCHMARK(blas_gemm)->ArgName("side")->Arg(64)->Arg(128)->Arg(256)->Arg(512)->Arg(1024);

void blas_syrk(benchmark::State& state) {
  kernels::set_up_blas();
  const int n = static_cast<int>(state.range(0));
  Numbers numbers(1);
  const auto a = numbers.some<float>(n * n);
  std::vector<float> c(static_cast<std::size_t>(n * (n + 1)));
  for (auto _ : state)
    kernels::blas::syrk('U', 'T', n, n, 1.0f, a.data(), n, 0.9f, c.data(), n + 1);
  rate(state, 1.0 * n * n * (n + 1));
}
BENCHMARK(blas_syrk)->ArgName("side")->Arg(64)->Arg(128)->Arg(256)->Arg(512)->Arg(1024);

void block_product(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const kernels::BlockShape shape{n, n, n};
  if (!kernels::has_block_product<float>(shape)) return state.SkipWithError("needs AVX2");
  const std::int64_t workspace = kernels::block_product_scratch(n);
  kernels::Scratch scratch;  // whole lines of the cache, as in a step
  scratch.reserve(3 * kernels::scratch_bytes<float>(n * n) +
                  kernels::scratch_bytes<float>(workspace));
  Numbers numbers(1);
  float* const a = scratch.take<float>(n * n);
  float* const b = scratch.take<float>(n * n);
  float* const c = scratch.take<float>(n * n);
  float* const products = scratch.take<float>(workspace);
  std::ranges::copy(numbers.some<float>(n * n), a);
  std::ranges::copy(numbers.some<float>(n * n), b);
  for (auto _ : state) kernels::multiply(shape, {a, n, true}, {b, n, false}, {}, c, n, products);
  rate(state, 2.0 * static_cast<double>(n * n * n));
}
BENCHMARK(block_product)->ArgName("side")->Arg(64)->Arg(128)->Arg(256)->Arg(384);

/// Elements of 256 x 256 blocks, in memory.
class Foreach {
 public:
  explicit Foreach(benchmark::State& state)
      : state_(state), setting_(256, in_memory, static_cast<int>(state.range(0))) {}

  template <typename Body>
  void run(double bytes_per_element, Body body) {
    const kernels::PassContext phase = setting_.table.phase();
    for (auto _ : state_) body(*setting_.backend, setting_.table, phase);
    state_.SetBytesProcessed(state_.iterations() *
                             static_cast<std::int64_t>(bytes_per_element * in_memory));
  }

 private:
  benchmark::State& state_;
  Setting setting_;
};

void scan(benchmark::State& state) {
  kernels::ScanResult result;
  Foreach(state).run(4,
                     [&](kernels::Backend& backend, Table& t, const kernels::PassContext& phase) {
                       backend.scan(phase.elements, &t.scale, true, &result);
                     });
}
BENCHMARK(scan)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void filter(benchmark::State& state) {
  // Reads G, M and V; writes M, V and F.
  Foreach(state).run(24,
                     [](kernels::Backend& backend, Table& t, const kernels::PassContext& phase) {
                       backend.filter(phase, t.gradient_pass());
                     });
}
BENCHMARK(filter)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void update(benchmark::State& state) {
  // Reads F and W; writes the segment.
  Foreach(state).run(12,
                     [](kernels::Backend& backend, Table& t, const kernels::PassContext& phase) {
                       backend.update(phase, {.direction = t.direction.data(),
                                              .grafting_norms = t.grafting_norms.data(),
                                              .direction_norms = t.direction_norms.data(),
                                              .segment = t.segment.data()});
                     });
}
BENCHMARK(update)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void apply(benchmark::State& state) {
  // Reads the segment and W; writes W. One tensor for each block: places in a block are flat ones.
  Foreach run(state);
  run.run(12, [](kernels::Backend& backend, Table& t, const kernels::PassContext& phase) {
    for (kernels::Block& block : t.blocks) block.segment = 0;
    backend.apply(phase.elements, t.modes.data(), t.segment.data(), &t.proceed);
  });
}
BENCHMARK(apply)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void copy_memory(benchmark::State& state) {
  std::vector<float> from(in_memory, 1.0f), to(in_memory);
  for (auto _ : state) {
    std::copy(from.begin(), from.end(), to.begin());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 8 * in_memory);
}
BENCHMARK(copy_memory);

void eigh(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  backend->reserve({}, Type::float32, {n});
  SquareBatch<float> original({n}), a({n});
  fill_wishart<float>(n, n, 1, original.matrix(0));
  std::int32_t failed = 0;
  for (auto _ : state) {
    std::copy(original.matrix(0).begin(), original.matrix(0).end(), a.matrix(0).begin());
    backend->eigh(a.squares(), kernels::Eigensolver::divide_and_conquer, &failed);
  }
}
BENCHMARK(eigh)->ArgName("side")->Arg(16)->Arg(64)->Arg(128)->Arg(256)->Unit(
    benchmark::kMillisecond);

/// Q of n x n random numbers.
template <typename Real>
void householder(benchmark::State& state) {
  kernels::set_up_blas();
  const std::int64_t n = state.range(0);
  const std::vector<Real> x = Numbers(1).some<Real>(n * n);
  std::vector<Real> q(x.size());
  kernels::Scratch scratch;
  scratch.reserve(kernels::householder_scratch(n));
  for (auto _ : state) {
    scratch.clear();
    kernels::iterate_orthogonally(n, x.data(), x.data(), 1, q.data(), scratch);
  }
  rate(state, 8.0 / 3 * static_cast<double>(n * n * n));
}
BENCHMARK(householder<float>)->ArgName("side")->Arg(256)->Arg(1024);
BENCHMARK(householder<double>)->ArgName("side")->Arg(256)->Arg(1024);

/// The same by LAPACK.
template <typename Real>
void lapack_qr(benchmark::State& state) {
  kernels::set_up_blas();
  const int n = static_cast<int>(state.range(0)), count = 64 * n;
  const std::vector<Real> x = Numbers(1).some<Real>(n * n);
  std::vector<Real> q, taus(static_cast<std::size_t>(n)), work(static_cast<std::size_t>(count));
  const std::string letter = std::is_same_v<Real, float> ? "s" : "d";
  const kernels::Module& lapack = kernels::blas::library();
  const auto geqrf =
      lapack.find<void(const int*, const int*, Real*, const int*, Real*, Real*, const int*, int*)>(
          (letter + "geqrf_").c_str());
  const auto orgqr =
      lapack.find<void(const int*, const int*, const int*, Real*, const int*, const Real*, Real*,
                       const int*, int*)>((letter + "orgqr_").c_str());
  int info = 0;
  for (auto _ : state) {
    q = x;
    geqrf(&n, &n, q.data(), &n, taus.data(), work.data(), &count, &info);
    orgqr(&n, &n, &n, q.data(), &n, taus.data(), work.data(), &count, &info);
  }
  rate(state, 8.0 / 3 * n * n * n);
}
BENCHMARK(lapack_qr<float>)->ArgName("side")->Arg(256)->Arg(1024);
BENCHMARK(lapack_qr<double>)->ArgName("side")->Arg(256)->Arg(1024);

}  // namespace
