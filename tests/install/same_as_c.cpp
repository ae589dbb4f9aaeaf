// SPDX-License-Identifier: Apache-2.0
// What main.c does, by the C++ interface.
#include <shampoo/c.h>
#include <shampoo/shampoo.h>

#include <cstdio>
#include <utility>
#include <vector>

int main() {
  constexpr int rows = 12, columns = 7, layers = 3, sides = 5, steps = 40;
  std::vector<float> values(layers * (rows * columns + sides), 0.0f), gradients(values);
  constexpr int matrix = rows * columns, behind = layers * matrix;
  auto parameters =
      shampoo::stacked("h.%d.weight", {rows, columns}, &values[0], &gradients[0], matrix, layers);
  for (shampoo::Parameter& bias :
       shampoo::stacked("h.%d.bias", {sides}, &values[behind], &gradients[behind], sides, layers))
    parameters.push_back(std::move(bias));
  auto groups = shampoo::routes::language_model(
                    {.refresh = {.every = 4, .first = 4}, .blocking = {.size = 8}},
                    {.learning_rate = 0.05, .weight_decay = 0.1})
                    .groups(std::move(parameters));
  for (shampoo::ParameterGroup& group : groups)
    group.schedules["learning_rate"] = shampoo::schedules::Function{
        [](std::int64_t step) { return 1 / (1 + static_cast<double>(step) / 10); }};
  const auto backend = shampoo::cpu_backend();
  const auto ranks = shampoo::join(*backend);
  shampoo::Optimizer optimizer(*backend, *ranks, groups,
                               {.gradients = {.clipping = shampoo::ClipGlobalNorm{2.5}}});
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < values.size(); ++i) gradients[i] = values[i] - 1.0f;
    optimizer.step();
  }
  for (const float x : values) std::printf("%a\n", static_cast<double>(x));
}
