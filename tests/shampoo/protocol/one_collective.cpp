// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/protocol/one_collective.h"

#include <cstdio>
#include <exception>

#include "tests/shampoo/toy_model.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {

namespace {

constexpr int steps = 6;

std::vector<ParameterGroup> groups_of(ToyModel<float>& model, std::vector<double>& wide,
                                      int count) {
  Recipe other = quick_recipe();
  other.averaging = Momentum{};
  std::vector<ParameterGroup> groups(static_cast<std::size_t>(count));
  for (std::size_t g = 0; g < groups.size(); ++g)
    groups[g] = {.rates = {.learning_rate = 1e-3 * (1 + static_cast<double>(g))},
                 .recipe = g % 2 == 0 ? quick_recipe() : other};
  for (std::size_t t = 0; t < model.tensors.size(); ++t)
    groups[t % groups.size()].parameters.push_back(model.parameter(t));
  groups.front().parameters.front().value = wide.data();
  return groups;
}

bool trains_with_one_collective_per_step(kernels::Backend& backend, Communicator& ranks, int groups,
                                         const std::function<std::int64_t()>& counted) {
  ToyModel<float> model(std::vector<std::vector<std::int64_t>>(465, {5, 3}));
  std::vector<double> wide(15, 0.5);
  Optimizer optimizer(backend, ranks, groups_of(model, wide, groups));
  for (int step = 1; step <= steps; ++step) {
    const std::int64_t before = counted();
    optimizer.step();
    const std::int64_t calls = counted() - before;
    if (calls != 1) {
      std::fprintf(stderr, "%d groups, step %d, rank %d: %lld collectives\n", groups, step,
                   ranks.rank(), static_cast<long long>(calls));
      return false;
    }
    model.new_gradients();
  }
  return true;
}

}  // namespace

int check_one_collective(const std::function<std::int64_t()>& counted) {
  try {
    const auto backend = cpu_kernels({.threads = 1});
    const auto ranks = join(*backend);
    for (const int groups : {1, 28, 465})
      if (!trains_with_one_collective_per_step(*backend, *ranks, groups, counted)) return 1;
    if (ranks->rank() == 0)
      std::printf("one collective per step on %d ranks, %s\n", ranks->size(),
                  ranks->description().c_str());
    return ranks->size() > 1 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace shampoo::test
