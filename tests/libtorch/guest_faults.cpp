// SPDX-License-Identifier: Apache-2.0
#include <shampoo/checkpoint.h>
#include <shampoo/shampoo.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "guest.h"

namespace guest {
namespace {

constexpr std::int64_t side = 48;
constexpr int bad_step = 5, last_step_of_killed = 7;

bool is_first_attempt() {
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return restarts == nullptr || std::strcmp(restarts, "0") == 0;
}

/// The same on all ranks: they depend on the step alone.
void make_gradients(int step, const std::vector<float>& values, std::vector<float>& gradients) {
  auto random = static_cast<std::uint32_t>(step);
  for (std::size_t i = 0; i < values.size(); ++i) {
    random = random * 1664525u + 1013904223u;
    gradients[i] = values[i] - 1.0f + static_cast<float>(random >> 8) * 0x1p-24f;
  }
  if (step == bad_step) gradients[17] = std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

void train_through_faults(const std::string& folder, int steps, bool killed) {
  const auto backend = shampoo::cpu_backend({.threads = 1});
  const auto ranks = shampoo::join(*backend);
  std::vector<float> values(side * side * 2, 0.0f), gradients(values.size());
  shampoo::ParameterGroup group{.rates = {.learning_rate = 1e-2}};
  group.recipe.refresh = {.every = 2, .first = 1};
  shampoo::UserState user;
  for (int i = 0; i < 2; ++i) {
    float* const value = values.data() + i * side * side;
    group.parameters.push_back({.name = "matrix" + std::to_string(i),
                                .shape = {side, side},
                                .value = value,
                                .gradient = gradients.data() + i * side * side});
    user.tensors.push_back({group.parameters.back().name, {side, side}, value});
  }
  shampoo::Optimizer optimizer(*backend, *ranks, {group});
  const auto loaded = shampoo::resume(optimizer, folder, user);
  for (int step = loaded ? static_cast<int>(loaded->step) + 1 : 1; step <= steps; ++step) {
    const bool last = killed && ranks->rank() == ranks->size() - 1 && is_first_attempt();
    if (last && step == last_step_of_killed) std::raise(SIGKILL);
    make_gradients(step, values, gradients);
    const std::vector<float> before = values;
    const bool applied = optimizer.step().applied();
    if (applied == (step == bad_step) || (values == before) == applied)
      throw std::runtime_error("step " + std::to_string(step) + ": a NaN must skip it, only that");
    if (step % 2 == 0) shampoo::save(optimizer, folder, user, {.keep_last = 2});
  }
  std::printf("rank %d bits %016" PRIx64 "\n", ranks->rank(), hash_of(values));
}

}  // namespace guest
