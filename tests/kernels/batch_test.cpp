// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "kernels/solvers/polar_plan.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/table.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using kernels::Mode;
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
          .wire_type = types[i % 4],
          .is_value = false,
          .mode = Mode::preconditioned,
          .coefficients = some_coefficients(i),
          .seed = i + 1};
}

/// Roots of all factors through the primitives of an eigendecomposition.
void refresh(kernels::Backend& backend, Table& t) {
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
  backend.unpack_factors(pairs, {.scales = scales.data(), .shifts = shifts.data()}, a);
  backend.eigh(a, kernels::Eigensolver::divide_and_conquer, failed.data());
  backend.root_spectrum(a, {.epsilons = epsilons.data(), .exponents = exponents.data()});
  backend.reconstruct(a, x);
  backend.pack_roots(x, pairs, failed.data());
}

/// One step with every primitive; what it leaves behind, for every tensor by its seed.
std::map<std::uint64_t, Bytes> step(kernels::Backend& backend, Table& t) {
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
    append(bytes, t.segment.data() + block.segment, elements * size_of(block.wire_type));
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
  const std::unique_ptr<kernels::Backend> one = backend_with_host_arrays(place, 1);
  for (const TensorCase& c : all) {
    Table t({c}, type, cut);
    alone.merge(step(*one, t));
  }

  for (int threads = 1; threads <= most_threads(place); ++threads) {
    const std::unique_ptr<kernels::Backend> backend = backend_with_host_arrays(place, threads);
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

/// Those of the present blocks that are preconditioned.
std::vector<std::vector<std::int32_t>> preconditioned_blocks(const Table& t) {
  std::vector<std::vector<std::int32_t>> result;
  for (std::size_t s = 0; s < t.stacks.size(); ++s) {
    auto& list = result.emplace_back();
    for (const std::int32_t i : t.selections[s])
      if (t.modes[static_cast<std::size_t>(t.stacks[s].first_block + i)] == Mode::preconditioned)
        list.push_back(i);
  }
  return result;
}

/// Makes a root of the first preconditioned block with one not finite.
void spoil_root(Table& t) {
  for (std::size_t s = 0; s < t.stacks.size(); ++s)
    for (const std::int32_t i : t.selections[s]) {
      const auto block = static_cast<std::size_t>(t.stacks[s].first_block + i);
      if (t.modes[block] != Mode::preconditioned || t.factors[s].empty()) continue;
      const std::int64_t n = t.stacks[s].extent[0];
      // (0, 0) of the root is the second number of a pair array.
      write(t.factors[s][0].data() +
                static_cast<std::size_t>(i * n * (n + 1) + 1) * size_of(t.arithmetic),
            t.arithmetic, std::numeric_limits<double>::quiet_NaN());
      return;
    }
}

class OnePassBits : public ::testing::TestWithParam<Type> {
 protected:
  struct Setting {
    kernels::AveragingRule averaging;
    bool sends, grafts;
  };
  struct Passes {
    kernels::GradientPass gradients;
    kernels::UpdatePass update;
  };
  static constexpr Cut cut{.block_side = 400, .tile_elements = 900};

  /// Refreshed, with a root that is not finite.
  std::unique_ptr<Table> table(kernels::Backend& backend) const {
    const std::vector<std::vector<std::int64_t>> shapes = {
        {}, {97}, {64, 64}, {65, 33}, {129, 270}, {390, 13}, {1, 96}, {3, 5, 7}};
    constexpr Mode modes[] = {Mode::preconditioned, Mode::unpreconditioned, Mode::preconditioned,
                              Mode::absent};
    std::vector<TensorCase> cases;
    for (std::size_t i = 0; i < 4; ++i)
      for (const auto& shape : shapes) {
        cases.push_back(some_case(shape, cases.size()));
        cases.back().mode = modes[(i + cases.size() / 8) % 4];
        cases.back().is_value = i % 3 == 0;
      }
    auto t = std::make_unique<Table>(cases, GetParam(), cut);
    backend.reserve(t->stacks, GetParam(), {400});
    backend.accumulate_factors(t->phase(), t->stacks, t->selected(), t->masters.data());
    refresh(backend, *t);
    spoil_root(*t);
    return t;
  }

  /// `count`: of directions that are not finite.
  static Passes passes(Table& t, const Setting& setting, kernels::NonFiniteDirections& count) {
    kernels::GradientPass gradients = t.gradient_pass();
    kernels::UpdatePass update = t.update_pass(setting.averaging);
    update.non_finite = &count;
    if (!setting.sends) update.segment = nullptr;
    if (!setting.grafts) gradients.grafting.reset();
    if (!setting.grafts) gradients.grafting_norms = nullptr, update.grafting_norms = nullptr;
    return {gradients, update};
  }

  /// But for norms of directions.
  static void expect_equal(const Table& one, const Table& three) {
    EXPECT_EQ(one.segment, three.segment);
    EXPECT_EQ(one.masters, three.masters);
    EXPECT_EQ(one.first_moment, three.first_moment);
    EXPECT_EQ(one.grafting_moment, three.grafting_moment);
    EXPECT_EQ(one.momentum, three.momentum);
    EXPECT_EQ(one.grafting_norms, three.grafting_norms);
    for (std::size_t i = 0; i < one.values.size(); ++i)
      EXPECT_EQ(one.values[i].memory, three.values[i].memory);
  }
  /// `least`, `most`: of the first norm, in the second one, where both are finite.
  static void expect_norms(const Table& one, const Table& three, double least = 1,
                           double most = 1) {
    for (std::size_t b = 0; b < one.direction_norms.size(); ++b) {
      const double norm = one.direction_norms[b], expected = three.direction_norms[b];
      ASSERT_EQ(std::isfinite(norm), std::isfinite(expected)) << b;
      if (!std::isfinite(norm)) continue;
      if (expected < 0) {
        EXPECT_EQ(norm, expected) << "written for an absent block";
        continue;
      }
      EXPECT_GE(norm, expected * least) << b;
      EXPECT_LE(norm, expected * most) << b;
    }
  }
};

TEST_P(OnePassBits, AreThoseOfThreePasses) {
  using enum kernels::AveragingRule;
  for (const int threads : {1, 3})
    for (const Setting& setting : {Setting{nesterov, true, true}, Setting{iterate, false, true},
                                   Setting{none, false, false}}) {
      const std::unique_ptr<kernels::Backend> backend =
          backend_with_host_arrays(Place::cpu, threads);
      const auto three = table(*backend), one = table(*backend), before = table(*backend);
      kernels::NonFiniteDirections counts[2];
      const auto lists = preconditioned_blocks(*three);
      std::vector<kernels::Selection> preconditioned;
      for (const auto& list : lists)
        preconditioned.push_back({list.data(), static_cast<std::int64_t>(list.size())});
      const Passes separate = passes(*three, setting, counts[0]);
      backend->filter(three->phase(), separate.gradients);
      backend->precondition(three->phase(), three->stacks, preconditioned, three->direction.data(),
                            three->direction_norms.data());
      backend->update(three->phase(), separate.update);

      Passes joined = passes(*one, setting, counts[1]);
      joined.gradients.direction = nullptr;
      joined.update.direction = nullptr;
      const auto step = [&] {
        backend->precondition_and_update(one->phase(), joined.gradients, one->stacks,
                                         one->selected(), one->direction_norms.data(),
                                         joined.update);
      };
      one->proceed = 0;
      step();
      expect_equal(*one, *before);
      expect_norms(*one, *before);
      one->proceed = 1;
      step();
      expect_equal(*one, *three);
      expect_norms(*one, *three);
      EXPECT_EQ(counts[1].blocks, 1);
      EXPECT_EQ(counts[1].blocks, counts[0].blocks);
      EXPECT_EQ(counts[1].first_tensor, counts[0].first_tensor);
    }
}

/// Matrices that are taken whole, in one panel and in three, absent ones, and one that is not
/// finite.
TEST_P(OnePassBits, AreThoseOfThreePassesByNewtonSchulz) {
  using enum kernels::AveragingRule;
  const auto table = [&] {
    std::vector<TensorCase> cases;
    for (std::size_t i = 0; i < 4; ++i)
      for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
               {1, 1}, {1, 9}, {9, 1}, {65, 64}, {130, 400}, {40, 1300}, {1300, 40}}) {
        cases.push_back(some_case(shape, cases.size()));
        cases.back().mode = cases.size() % 5 == 0 ? Mode::absent : Mode::preconditioned;
        cases.back().is_value = i % 3 == 0;
      }
    auto t = std::make_unique<Table>(cases, GetParam(), Cut{.tile_elements = 900});
    t->gradients[5].write(17, std::numeric_limits<double>::quiet_NaN());
    return t;
  };
  for (const int threads : {1, 3})
    for (const Setting& setting : {Setting{nesterov, true, false}, Setting{iterate, false, false},
                                   Setting{none, false, false}}) {
      const std::unique_ptr<kernels::Backend> backend =
          backend_with_host_arrays(Place::cpu, threads);
      const auto three = table(), one = table(), before = table();
      std::vector<kernels::PolarPlan> plans;
      for (const kernels::Stack& stack : one->stacks)
        plans.push_back(kernels::plan_polar(NewtonSchulz{}, stack.extent[0], stack.extent[1], 0.2));
      kernels::NonFiniteDirections counts[2];
      backend->reserve_orthogonalization(three->stacks, plans, GetParam(), false);
      const Passes separate = passes(*three, setting, counts[0]);
      backend->filter(three->phase(), separate.gradients);
      backend->orthogonalize(three->phase(), three->stacks, three->selected(), plans,
                             three->direction.data(), three->direction_norms.data());
      backend->update(three->phase(), separate.update);

      backend->reserve_orthogonalization(one->stacks, plans, GetParam(), true);
      Passes joined = passes(*one, setting, counts[1]);
      joined.gradients.direction = nullptr;
      joined.update.direction = nullptr;
      const auto step = [&] {
        backend->orthogonalize_and_update(one->phase(), joined.gradients, one->stacks,
                                          one->selected(), plans, one->direction_norms.data(),
                                          joined.update);
      };
      one->proceed = 0;
      step();
      expect_equal(*one, *before);
      expect_norms(*one, *before);
      one->proceed = 1;
      step();
      expect_equal(*one, *three);
      // The bound is that of up to 130 singular values a^5 s, and P rounds each by so many terms;
      // the largest one is at least 0.6 in P.
      const double unit = GetParam() == Type::float32 ? 0x1p-24 : 0x1p-53;
      expect_norms(*one, *three, 1 - 4 * 130 * unit,
                   130 * std::pow(NewtonSchulz{}.coefficients[0], 10) / (0.6 * 0.6));
      EXPECT_EQ(counts[1].blocks, 1);
      EXPECT_EQ(counts[0].blocks, 1);
      EXPECT_EQ(counts[1].first_tensor, 5);
      EXPECT_EQ(counts[0].first_tensor, 5);
    }
}

TEST(PreconditionAndUpdate, NeedsASelectionForEachStackAndAHost) {
  Table t({{.shape = {5, 6}}}, Type::float32);
  const kernels::GradientPass gradients = t.gradient_pass();
  const kernels::UpdatePass update = t.update_pass(kernels::AveragingRule::none);
  const auto step = [&](kernels::Backend& backend) {
    backend.precondition_and_update(t.phase(), gradients, {}, t.selected(),
                                    t.direction_norms.data(), update);
  };
  EXPECT_EQ(error_of<std::logic_error>([&] { step(*backend_with_host_arrays(Place::cpu, 1)); }),
            "precondition_and_update: 0 stacks, 1 selections");
  const auto device = backend_with_host_arrays(Place::emulated, 1);
  EXPECT_FALSE(device->has_block_passes());
  EXPECT_THROW(step(*device), std::logic_error);
  EXPECT_THROW(device->orthogonalize_and_update(t.phase(), gradients, t.stacks, t.selected(), {},
                                                t.direction_norms.data(), update),
               std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Of, OnePassBits, ::testing::Values(Type::float32, Type::float64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

INSTANTIATE_TEST_SUITE_P(Everywhere, StepBits,
                         ::testing::Combine(::testing::Values(Type::float32, Type::float64),
                                            ::testing::ValuesIn(all_places)),
                         [](const auto& tested) {
                           return name_of(std::get<1>(tested.param)) + "_" +
                                  std::string(name_of(std::get<0>(tested.param)));
                         });

}  // namespace
}  // namespace shampoo::test
