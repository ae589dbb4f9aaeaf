// SPDX-License-Identifier: Apache-2.0
#include <shampoo/shampoo.h>

#include <cstdio>
#include <vector>

/// Minimises the squared distance of a matrix from ones; fails unless it comes much closer.
int main() {
  std::vector<float> value(12 * 7, 0.0f), gradient(12 * 7);
  shampoo::ParameterGroup group{.rates = {.learning_rate = 0.05}};
  group.parameters.push_back(
      {.name = "matrix", .shape = {12, 7}, .value = value.data(), .gradient = gradient.data()});
  auto backend = shampoo::cpu_backend();
  auto ranks = shampoo::single_rank_communicator();
  shampoo::Optimizer optimizer(*backend, *ranks, {group});

  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    last = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      gradient[i] = value[i] - 1.0f;
      last += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    }
    if (step == 0) first = last;
    optimizer.step();
  }
  std::printf("squared distance %g, then %g\n", first, last);
  return last < 0.1 * first ? 0 : 1;
}
