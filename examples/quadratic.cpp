// SPDX-License-Identifier: Apache-2.0
// Finds the matrix W with A W = B for two given matrices, by minimising |A W - B|^2 / 2.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "shampoo/shampoo.h"

int main() {
  constexpr std::int64_t n = 8;
  std::vector<float> a(n * n), b(n * n), w(n * n, 0.0f), gradient(n * n);
  for (std::int64_t i = 0; i < n * n; ++i) {
    a[i] = std::sin(static_cast<float>(i * i)) + (i % (n + 1) == 0 ? 4.0f : 0.0f);
    b[i] = std::cos(static_cast<float>(i));
  }

  const auto backend = shampoo::cpu_backend();
  const auto ranks = shampoo::single_rank_communicator();
  shampoo::ParameterGroup group{.parameters = {{"w", {n, n}, {}, w.data(), gradient.data()}},
                                .rates = {.learning_rate = 0.1}};
  shampoo::Optimizer optimizer(*backend, *ranks, {group});

  for (int step = 0; step <= 200; ++step) {
    double loss = 0;
    gradient.assign(n * n, 0.0f);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float residual = -b[i * n + j];
        for (std::int64_t k = 0; k < n; ++k) residual += a[i * n + k] * w[k * n + j];
        for (std::int64_t k = 0; k < n; ++k) gradient[k * n + j] += a[i * n + k] * residual;
        loss += 0.5 * residual * residual;
      }
    if (step % 40 == 0) std::printf("step %3d   loss %.6f\n", step, loss);
    optimizer.group(0).rates.learning_rate = 0.1 * (1 - step / 201.0);
    optimizer.step();
  }
}
