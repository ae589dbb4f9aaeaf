// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/device/backends.h"

// Every number is compared with its definition in double precision. With k products in a sum of
// terms t the arithmetic type's error is at most (k + c) epsilon sum |t|, c for the few roundings
// around the sum; the sum of |t| is computed along with the sum.

namespace shampoo::test {
namespace {

using kernels::Coefficients;
using kernels::Mode;

/// Row-major number -> index along dimension k, and the number with that index removed.
struct Along {
  std::int64_t index, rest;
};

Along along(std::int64_t element, const std::vector<std::int64_t>& extent, std::size_t k) {
  std::int64_t after = 1;
  for (std::size_t i = k + 1; i < extent.size(); ++i) after *= extent[i];
  return {element / after % extent[k], element / (after * extent[k]) * after + element % after};
}

Coefficients some_coefficients(std::size_t i) {
  return {.l2 = i % 2 == 0 ? 0.0 : 0.25, .factor_keep = i % 3 == 0 ? 1.0 : 0.9, .factor_add = 0.3};
}

/// Sides around where algorithms change (8, 48, 384), 1, primes, orders 0 to 4, every layout, two
/// long sides.
std::vector<TensorCase> all_shapes(Type type, Type other) {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {},        {1},        {7},        {131},       {1, 1},    {1, 9},       {9, 1},
      {5, 3},    {63, 65},   {48, 49},   {65, 64},    {130, 17}, {17, 130},    {2, 3, 5},
      {5, 1, 4}, {70, 3, 2}, {2, 70, 3}, {2, 3, 70},  {1, 6, 1}, {2, 3, 4, 5}, {3, 1, 5, 2},
      {65, 66},  {72, 80},   {80, 72},   {66, 2, 67}, {384, 8},  {385, 8},     {8, 385}};
  constexpr Layout layouts[] = {Layout::packed, Layout::padded, Layout::shifted, Layout::spread,
                                Layout::transposed};
  std::vector<TensorCase> cases;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    for (std::size_t l = 0; l < 5; ++l)
      cases.push_back({shapes[i], type, l % 2 == 0 || i % 2 == 0 ? type : other, layouts[l],
                       Type::float32, false, (i + l) % 6 == 5 ? Mode::absent : Mode::preconditioned,
                       some_coefficients(i + l), 10 * i + l});
  return cases;
}

template <typename Tested>
class Matrices : public AtPlace<Tested> {
 protected:
  static constexpr Type real = type_of<typename Tested::Real>;
  static constexpr Type other = real == Type::float32 ? Type::bfloat16 : Type::float32;

  void SetUp() override {
    AtPlace<Tested>::SetUp();
    if (this->backend) this->backend->reserve(before.stacks, real, {1});
  }

  Cut cut{.block_side = 80, .tile_elements = 700};
  Table before{all_shapes(real, other), real, cut}, after{all_shapes(real, other), real, cut};
};

TYPED_TEST_SUITE(Matrices, RealsAtAllPlaces, NameOfPlace);

template <typename Real>
std::vector<double> gradient_of(Table& t, std::size_t b) {
  std::vector<double> g;
  for (std::int64_t i = 0; i < t.blocks[b].elements; ++i) {
    Real x = static_cast<Real>(t.gradient(b, i)) * static_cast<Real>(t.scale);
    if (t.coefficients[b].l2 != 0)
      x = x + static_cast<Real>(t.coefficients[b].l2) * static_cast<Real>(t.value(b, i));
    g.push_back(static_cast<double>(x));
  }
  return g;
}

/// C of dimension k
std::vector<Sum> contraction(const std::vector<double>& g, const std::vector<std::int64_t>& extent,
                             std::size_t k) {
  const std::int64_t n = extent[k], elements = static_cast<std::int64_t>(g.size());
  std::vector<double> by_rest(g.size());
  for (std::int64_t e = 0; e < elements; ++e) {
    const Along at = along(e, extent, k);
    by_rest[static_cast<std::size_t>(at.rest * n + at.index)] = g[static_cast<std::size_t>(e)];
  }
  std::vector<Sum> c(static_cast<std::size_t>(n * n));
  for (std::int64_t rest = 0; rest < elements / n; ++rest)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j)
        c[static_cast<std::size_t>(i * n + j)].add(by_rest[static_cast<std::size_t>(rest * n + i)] *
                                                   by_rest[static_cast<std::size_t>(rest * n + j)]);
  return c;
}

template <typename Real>
void expect_factors(Table& old, Table& now) {
  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    for (std::size_t k = 0; k < now.stacks[s].extent.size(); ++k)
      for (std::int64_t m = 0; m < now.stacks[s].count; ++m) {
        const auto b = static_cast<std::size_t>(now.stacks[s].first_block + m);
        const bool is_left_alone =
            now.modes[b] == Mode::absent || now.stacks[s].factors[k] == nullptr;
        const std::int64_t n = now.stacks[s].extent[k];
        std::vector<Sum> c;
        if (!is_left_alone) c = contraction(gradient_of<Real>(old, b), now.stacks[s].extent, k);
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j <= n; ++j) {
            const double was = old.factor(s, k, m, i, j), is = now.factor(s, k, m, i, j);
            if (j > i || is_left_alone) {
              ASSERT_EQ(is, was) << "stack " << s << " dimension " << k;
              continue;
            }
            const Sum& sum = c[static_cast<std::size_t>(i * n + j)];
            const double keep = now.coefficients[b].factor_keep,
                         add = now.coefficients[b].factor_add;
            const double size = keep * std::abs(was) + add * sum.size;
            ASSERT_NEAR(is, keep * was + add * sum.value,
                        static_cast<double>(sum.terms + 6) * epsilon_of<Real> * size)
                << "stack " << s << " dimension " << k << " side " << n;
          }
      }
}

TYPED_TEST(Matrices, AccumulateAddsTheContractionOfEveryDimension) {
  using Real = typename TypeParam::Real;
  for (const double scale : {1.0, 0.7}) {
    Table old(this->before.cases, this->real, this->cut), now(old.cases, this->real, this->cut);
    old.scale = now.scale = scale;
    for (kernels::Stack& stack : now.stacks)
      if (stack.extent.size() == 3) stack.factors[1] = nullptr;

    this->backend->accumulate_factors(now.phase(), now.stacks, now.selected(), nullptr);

    expect_factors<Real>(old, now);
  }
}

TYPED_TEST(Matrices, FactorsHaveTheSameBitsAloneAndAmongBlocksOfOtherTypes) {
  const Type types[] = {Type::bfloat16, this->real, Type::float16};
  std::vector<TensorCase> many;
  for (std::size_t i = 0; i < 12; ++i)
    many.push_back({.shape = {70, 80},
                    .gradient = types[i % 3],
                    .coefficients = {.l2 = i % 4 == 0 ? 0.25 : 0.0, .factor_keep = 0.9},
                    .seed = i + 1});
  Table all(many, this->real);
  this->backend->reserve(all.stacks, this->real, {1});
  this->backend->accumulate_factors(all.phase(), all.stacks, all.selected(), nullptr);
  for (std::size_t m = 0; m < many.size(); ++m) {
    Table one({many[m]}, this->real);
    this->backend->accumulate_factors(one.phase(), one.stacks, one.selected(), nullptr);
    for (std::size_t k = 0; k < 2; ++k)
      for (std::int64_t i = 0; i < many[m].shape[k]; ++i)
        for (std::int64_t j = 0; j <= i; ++j)
          ASSERT_EQ(all.factor(0, k, static_cast<std::int64_t>(m), i, j), one.factor(0, k, 0, i, j))
              << "block " << m << " dimension " << k;
  }
}

/// Sides one past a tile of 128 and more, and of more panels of 64 than are in memory at once,
/// whose last is not full; layouts that accesses of 16 bytes fit and do not fit.
std::vector<TensorCase> sixteen_bits() {
  std::vector<TensorCase> cases;
  for (const Type type : {Type::bfloat16, Type::float16})
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{129, 40}, {33, 150}, {264, 200}, {200}})
      for (const Layout layout :
           {Layout::packed, Layout::padded, Layout::shifted, Layout::spread, Layout::transposed})
        cases.push_back({.shape = shape,
                         .gradient = type,
                         .layout = layout,
                         .coefficients = some_coefficients(2 * cases.size()),
                         .seed = cases.size() + 1});
  return cases;
}

TYPED_TEST(Matrices, AccumulateReadsGradientsOfSixteenBits) {
  for (const double scale : {1.0, 0.7}) {
    Table old(sixteen_bits(), this->real), now(sixteen_bits(), this->real);
    this->backend->reserve(now.stacks, this->real, {264});
    old.scale = now.scale = scale;

    this->backend->accumulate_factors(now.phase(), now.stacks, now.selected(), nullptr);

    expect_factors<typename TypeParam::Real>(old, now);
  }
}

TYPED_TEST(Matrices, FactorsHaveTheSameBitsWhereTheSquareOfTheScaleUnderflows) {
  std::vector<TensorCase> cases = sixteen_bits();
  std::erase_if(cases, [](const TensorCase& c) { return c.gradient != Type::bfloat16; });
  Table small(cases, this->real), large(cases, this->real);
  this->backend->reserve(large.stacks, this->real, {264});
  small.scale = 0x1p-4;
  large.scale = 0x1p-64;
  for (std::size_t b = 0; b < large.blocks.size(); ++b)
    for (std::int64_t i = 0; i < large.blocks[b].elements; ++i)
      large.gradients[static_cast<std::size_t>(large.blocks[b].tensor)].write(
          large.place(b, i), 0x1p60 * small.gradient(b, i));

  for (Table* const t : {&small, &large})
    this->backend->accumulate_factors(t->phase(), t->stacks, t->selected(), nullptr);

  EXPECT_EQ(large.factors, small.factors);
}

TYPED_TEST(Matrices, AccumulateReadsMastersForDecay) {
  using Real = typename TypeParam::Real;
  const std::vector<TensorCase> cases = {
      {.shape = {6, 5}, .value = Type::bfloat16, .coefficients = {.l2 = 1e3, .factor_keep = 0}}};
  Table t(cases, this->real);
  this->backend->reserve(t.stacks, this->real, {6});
  this->backend->accumulate_factors(t.phase(), t.stacks, t.selected(), t.masters.data());

  Sum c;
  for (std::int64_t j = 0; j < 5; ++j) {
    const double w = read(t.masters.data() + 4 * j, Type::float32);
    const double g = t.gradient(0, j) + 1e3 * w;
    c.add(g * g);
  }
  EXPECT_NEAR(t.factor(0, 0, 0, 0, 0), c.value, 20 * epsilon_of<Real> * c.size);
}

TYPED_TEST(Matrices, OnlyBlocksWhoseModeAsksForItTakePart) {
  Table& now = this->after;
  for (std::size_t b = 0; b < now.modes.size(); ++b)
    if (now.modes[b] != Mode::absent && b % 3 != 0)
      now.modes[b] = b % 3 == 1 ? Mode::unpreconditioned : Mode::absent;
  now.select_present();
  this->backend->accumulate_factors(now.phase(), now.stacks, now.selected(), nullptr);
  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    std::erase_if(now.selections[s], [&](std::int32_t i) {
      return now.modes[static_cast<std::size_t>(now.stacks[s].first_block + i)] !=
             Mode::preconditioned;
    });
  this->backend->precondition(now.phase(), now.stacks, now.selected(), now.direction.data(),
                              now.direction_norms.data());

  std::int64_t preconditioned = 0;
  for (std::size_t s = 0; s < now.stacks.size(); ++s)
    for (std::int64_t m = 0; m < now.stacks[s].count; ++m) {
      const auto b = static_cast<std::size_t>(now.stacks[s].first_block + m);
      EXPECT_EQ(now.direction_norms[b] != -1, now.modes[b] == Mode::preconditioned);
      preconditioned += now.modes[b] == Mode::preconditioned;
      if (now.stacks[s].extent.empty()) continue;
      EXPECT_EQ(now.factor(s, 0, m, 0, 0) != this->before.factor(s, 0, m, 0, 0),
                now.modes[b] != Mode::absent);
      if (now.modes[b] != Mode::preconditioned) {
        EXPECT_EQ(now.slot(now.direction, now.blocks[b].flat),
                  this->before.slot(this->before.direction, now.blocks[b].flat));
      }
    }
  EXPECT_GT(preconditioned, 20);
}

TYPED_TEST(Matrices, ARefusedStepChangesNothing) {
  Table& now = this->after;
  now.proceed = 0;
  this->backend->accumulate_factors(now.phase(), now.stacks, now.selected(), nullptr);
  this->backend->precondition(now.phase(), now.stacks, now.selected(), now.direction.data(),
                              now.direction_norms.data());

  EXPECT_EQ(now.factors, this->before.factors);
  EXPECT_EQ(now.direction, this->before.direction);
  EXPECT_EQ(now.direction_norms, this->before.direction_norms);
}

TEST(FactorsOfAGradient, WithRowsFurtherApartThanAnIntCountsAreTheSame) {
  // The remainder of 2^32 is a stride, too.
  constexpr std::int64_t stride = (std::int64_t{1} << 32) + 512;
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  // By kernels of this library, and by BLAS.
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{9, 40}, {4, 400}}) {
    Table dense({{.shape = shape}}, Type::float32), spread(dense.cases, Type::float32);
    backend->reserve(dense.stacks, Type::float32, {shape[1]});
    const auto bytes = static_cast<std::size_t>(shape[0] * stride) * sizeof(float);
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no address space of " << bytes << " bytes";
    for (std::int64_t i = 0; i < dense.blocks[0].elements; ++i)
      static_cast<float*>(memory)[i / shape[1] * stride + i % shape[1]] =
          static_cast<float>(dense.gradient(0, i));
    spread.blocks[0].gradient_row = stride;
    for (kernels::Tile& tile : spread.tiles) tile.gradient_row = stride;
    kernels::PassContext phase = spread.phase();
    const void* const gradients[] = {memory};
    phase.elements.tensors.gradients = gradients;

    backend->accumulate_factors(dense.phase(), dense.stacks, dense.selected(), nullptr);
    backend->accumulate_factors(phase, spread.stacks, spread.selected(), nullptr);

    munmap(memory, bytes);
    EXPECT_TRUE(spread.factors == dense.factors) << shape[1] << " columns";
  }
}

}  // namespace
}  // namespace shampoo::test
