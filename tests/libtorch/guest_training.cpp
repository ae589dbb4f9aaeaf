// SPDX-License-Identifier: Apache-2.0
#include <shampoo/shampoo.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "guest.h"

namespace guest {
namespace {

constexpr std::int64_t side = 256;
constexpr int matrices = 6, steps = 96, refresh_every = 4;
/// Times of fewer are not exact enough to tell threads.
constexpr int refreshes_at_once = 8;

}  // namespace

std::uint64_t hash_of(const std::vector<float>& values) {
  std::uint64_t hash = 14695981039346656037u;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

void train() {
  const auto backend = shampoo::cpu_backend({.threads = 1});
  const auto ranks = shampoo::join(*backend);
  std::vector<float> values(side * side * matrices, 0.0f), gradients(values.size());
  shampoo::ParameterGroup group{.rates = {.learning_rate = 1e-2}};
  group.recipe.refresh = {.every = refresh_every, .first = 1};
  group.recipe.blocking.size = side;
  for (int i = 0; i < matrices; ++i)
    group.parameters.push_back({.name = "matrix" + std::to_string(i),
                                .shape = {side, side},
                                .value = values.data() + i * side * side,
                                .gradient = gradients.data() + i * side * side});
  shampoo::Optimizer optimizer(*backend, *ranks, {group});

  std::uint32_t random = static_cast<std::uint32_t>(1 + ranks->rank());
  double fastest_refresh = 1e9;
  // A BLAS with several threads has them all the time; other processes hold up the threads of a
  // rank now and then, and Gloo's polls meanwhile.
  bool has_one_thread = false;
  int refreshed = 0;
  CpuTime time;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      random = random * 1664525u + 1013904223u;
      gradients[i] = values[i] - 1.0f + static_cast<float>(random >> 8) * 0x1p-24f;
    }
    ranks->average({{gradients.data(), static_cast<std::int64_t>(gradients.size())}});
    const bool refreshes = step % refresh_every == 0;
    if (refreshes) time.start();
    const auto begin = std::chrono::steady_clock::now();
    optimizer.step();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (!refreshes) continue;
    time.stop();
    fastest_refresh = std::min(fastest_refresh, took.count());
    if (++refreshed % refreshes_at_once != 0) continue;
    has_one_thread |= time.is_of_one_thread();
    time = {};
  }
  std::printf("rank %d backend %s\n", ranks->rank(), backend->description().c_str());
  std::printf("rank %d ranks %s\n", ranks->rank(), ranks->description().c_str());
  std::printf("rank %d bits %016" PRIx64 "\n", ranks->rank(), hash_of(values));
  std::printf("rank %d refreshes on %s, in %.2f ms\n", ranks->rank(),
              has_one_thread ? "one thread" : "several threads", fastest_refresh);
}

}  // namespace guest
