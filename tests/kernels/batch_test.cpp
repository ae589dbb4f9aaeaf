// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/kernels/bits.h"
#include "tests/kernels/some_step.h"

namespace shampoo::test {
namespace {

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

INSTANTIATE_TEST_SUITE_P(Everywhere, StepBits,
                         ::testing::Combine(::testing::Values(Type::float32, Type::float64),
                                            ::testing::ValuesIn(all_places)),
                         [](const auto& tested) {
                           return name_of(std::get<1>(tested.param)) + "_" +
                                  std::string(name_of(std::get<0>(tested.param)));
                         });

}  // namespace
}  // namespace shampoo::test
