// SPDX-License-Identifier: Apache-2.0
// What main.c does, by the C++ interface.
#include <shampoo/c.h>
#include <shampoo/shampoo.h>

#include <cstdio>
#include <string>
#include <vector>

int main() {
  constexpr int rows = 12, columns = 7, layers = 3, sides = 5, steps = 40;
  std::vector<float> values(layers * (rows * columns + sides), 0.0f), gradients(values);
  std::vector<shampoo::ParameterGroup> groups{
      {.rates = {.learning_rate = 0.05},
       .recipe = {.refresh = {.every = 4, .first = 4}, .blocking = {.size = 8}}},
      {.recipe = shampoo::recipes::adamw()}};
  float *value = values.data(), *gradient = gradients.data();
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{rows, columns}, {sides}})
    for (int layer = 0; layer < layers; ++layer) {
      shampoo::ParameterGroup& group = groups[shape.size() == 2 ? 0 : 1];
      const char* const name = shape.size() == 2 ? ".weight" : ".bias";
      group.parameters.push_back({.name = "h." + std::to_string(layer) + name,
                                  .shape = shape,
                                  .value = value,
                                  .gradient = gradient});
      const std::int64_t count = shape.size() == 2 ? rows * columns : sides;
      value += count;
      gradient += count;
    }
  const auto backend = shampoo::cpu_backend();
  const auto ranks = shampoo::join(*backend);
  shampoo::Optimizer optimizer(*backend, *ranks, groups,
                               {.gradients = {.clipping = shampoo::ClipGlobalNorm{2.5}}});
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < values.size(); ++i) gradients[i] = values[i] - 1.0f;
    optimizer.group(1).rates.learning_rate = 0.05 / (1 + step);
    optimizer.step();
  }
  for (const float x : values) std::printf("%a\n", static_cast<double>(x));
}
