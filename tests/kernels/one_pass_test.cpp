// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>

#include "kernels/solvers/polar_plan.h"
#include "tests/kernels/some_step.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using kernels::Mode;

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

  /// The same without memory for directions.
  static Passes joined_passes(Table& t, const Setting& setting,
                              kernels::NonFiniteDirections& count) {
    Passes joined = passes(t, setting, count);
    joined.gradients.direction = nullptr;
    joined.update.direction = nullptr;
    return joined;
  }

  static void expect_norm(double norm, double expected, std::size_t block) {
    if (std::isfinite(expected))
      EXPECT_EQ(norm, expected) << block;
    else
      EXPECT_FALSE(std::isfinite(norm)) << block;
  }
  static void expect_norms(const Table& one, const Table& three) {
    for (std::size_t b = 0; b < one.direction_norms.size(); ++b)
      expect_norm(one.direction_norms[b], three.direction_norms[b], b);
  }
  /// A step of `one` that is skipped leaves what was `before`, and one that is not what the three
  /// passes left in `three`, but for norms.
  template <typename Step>
  static void expect_steps(Table& one, const Table& before, const Table& three, const Step& step) {
    one.proceed = 0;
    step();
    expect_equal(one, before);
    expect_norms(one, before);
    one.proceed = 1;
    step();
    expect_equal(one, three);
  }
  /// Bounds where a plan is on the Gram matrix.
  static void expect_bounds(const Table& one, const Table& three,
                            std::span<const kernels::PolarPlan> plans) {
    const double unit = one.arithmetic == Type::float32 ? 0x1p-24 : 0x1p-53;
    const double growth = std::pow(NewtonSchulz{}.coefficients[0], 10);
    for (std::size_t s = 0; s < one.stacks.size(); ++s)
      for (const std::int32_t i : one.selections[s]) {
        const auto block = static_cast<std::size_t>(one.stacks[s].first_block + i);
        const double norm = one.direction_norms[block], expected = three.direction_norms[block];
        if (!plans[s].on_gram || !std::isfinite(expected)) {
          expect_norm(norm, expected, block);
          continue;
        }
        // |T|^2 is that of k singular values of at most a^5, P rounds each by k terms, and the
        // largest one is at least 0.6 in P.
        const auto k = static_cast<double>(std::ranges::min(one.extents[block]));
        EXPECT_GE(norm, expected * (1 - 4 * (k + 10) * unit)) << block;
        EXPECT_LE(norm, expected * k * growth / (0.6 * 0.6)) << block;
      }
  }
};

TEST_P(OnePassBits, AreThoseOfThreePasses) {
  using enum kernels::AveragingRule;
  const auto before = table(*backend_with_host_arrays(Place::cpu, 1));
  for (const int threads : {1, 3})
    for (const Setting& setting : {Setting{nesterov, true, true}, Setting{iterate, false, true},
                                   Setting{none, false, false}}) {
      const std::unique_ptr<kernels::Backend> backend =
          backend_with_host_arrays(Place::cpu, threads);
      const auto three = table(*backend), one = table(*backend);
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

      const Passes joined = joined_passes(*one, setting, counts[1]);
      expect_steps(*one, *before, *three, [&] {
        backend->precondition_and_update(one->phase(), joined.gradients, one->stacks,
                                         one->selected(), one->direction_norms.data(),
                                         joined.update);
      });
      expect_norms(*one, *three);
      EXPECT_EQ(counts[1].blocks, 1);
      EXPECT_EQ(counts[1].blocks, counts[0].blocks);
      EXPECT_EQ(counts[1].first_tensor, counts[0].first_tensor);
    }
}

/// Matrices that are taken whole, in one panel and in two, absent ones, unfiltered ones, and two
/// that are not finite.
TEST_P(OnePassBits, AreThoseOfThreePassesByNewtonSchulz) {
  using enum kernels::AveragingRule;
  const auto table = [&] {
    std::vector<TensorCase> cases;
    for (std::size_t i = 0; i < 4; ++i)
      for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
               {1, 1}, {1, 9}, {9, 1}, {65, 64}, {130, 400}, {40, 600}, {600, 40}}) {
        cases.push_back(some_case(shape, cases.size()));
        cases.back().mode = cases.size() % 5 == 0 ? Mode::absent : Mode::preconditioned;
        kernels::Coefficients& coefficients = cases.back().coefficients;
        if (i == 2) coefficients.first_weight = coefficients.filter_weight = 1;  // no filter
        cases.back().is_value = i % 3 == 0;
      }
    auto t = std::make_unique<Table>(cases, GetParam(), Cut{.tile_elements = 900});
    for (const std::size_t bad : {3, 5})
      t->gradients[bad].write(17, std::numeric_limits<double>::quiet_NaN());
    return t;
  };
  const auto before = table();
  for (const int threads : {1, 3})
    for (const Setting& setting : {Setting{nesterov, true, false}, Setting{iterate, false, false},
                                   Setting{none, false, false}}) {
      const std::unique_ptr<kernels::Backend> backend =
          backend_with_host_arrays(Place::cpu, threads);
      const auto three = table(), one = table();
      std::vector<kernels::PolarPlan> plans;
      for (const kernels::Stack& stack : one->stacks)
        plans.push_back(kernels::plan_polar(NewtonSchulz{}, stack.extent[0], stack.extent[1], 0.2));
      kernels::NonFiniteDirections counts[2];
      backend->reserve_orthogonalization(three->stacks, plans, GetParam());
      const Passes separate = passes(*three, setting, counts[0]);
      backend->filter(three->phase(), separate.gradients);
      backend->orthogonalize(three->phase(), three->stacks, three->selected(), plans,
                             three->direction.data(), three->direction_norms.data());
      backend->update(three->phase(), separate.update);

      backend->reserve_orthogonalization_and_update(one->stacks, plans, GetParam());
      const Passes joined = joined_passes(*one, setting, counts[1]);
      expect_steps(*one, *before, *three, [&] {
        backend->orthogonalize_and_update(one->phase(), joined.gradients, one->stacks,
                                          one->selected(), plans, one->direction_norms.data(),
                                          joined.update);
      });
      expect_bounds(*one, *three, plans);
      for (const auto& count : counts) {
        EXPECT_EQ(count.blocks, 2);
        EXPECT_EQ(count.first_tensor, 3);
      }
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
  const auto host = backend_with_host_arrays(Place::cpu, 1);
  EXPECT_EQ(error_of<std::logic_error>([&] {
              host->orthogonalize_and_update(t.phase(), gradients, t.stacks, t.selected(), {},
                                             t.direction_norms.data(), update);
            }),
            "orthogonalize_and_update: 1 stacks, 1 selections, 0 plans");
  EXPECT_THROW(device->reserve_orthogonalization_and_update(t.stacks, {}, Type::float32),
               std::logic_error);
  EXPECT_THROW(device->orthogonalize_and_update(t.phase(), gradients, t.stacks, t.selected(), {},
                                                t.direction_norms.data(), update),
               std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Of, OnePassBits, ::testing::Values(Type::float32, Type::float64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace shampoo::test
