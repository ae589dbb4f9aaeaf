// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scaling_validation.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/bench/results.h"
#include "tests/bench/scaling_rates.h"
#include "tests/kernels/numbers.h"

namespace shampoo::test {
namespace {

constexpr std::int64_t intervals = 3;  ///< timed, after a first one

StepTime step_time(const std::vector<double>& times) {
  return {std::ranges::min(times), median(times)};
}

/// Values and gradients of a model.
struct Tensors {
  explicit Tensors(const Model& model) {
    for (const Model::Tensor& tensor : model.tensors) {
      values.push_back(numbers.some<float>(grouping::numel(tensor.shape)));
      gradients.emplace_back(values.back().size());
    }
  }

  ParameterGroup group(const Job& job) {
    ParameterGroup result{.recipe = job.recipe};
    for (std::size_t i = 0; i < values.size(); ++i)
      result.parameters.push_back({.name = job.model.tensors[i].name,
                                   .shape = job.model.tensors[i].shape,
                                   .value = values[i].data(),
                                   .gradient = gradients[i].data()});
    return result;
  }

  void draw_gradients() {
    for (std::vector<float>& gradient : gradients)
      for (float& number : gradient) number = static_cast<float>(numbers.next());
  }

  Numbers numbers{1};
  std::vector<std::vector<float>> values, gradients;
};

}  // namespace

Validation validate_prediction(const std::string& name, const Job& job, int threads) {
  using Clock = std::chrono::steady_clock;
  Tensors tensors(job.model);
  const auto backend = cpu_backend({.threads = threads});
  const auto alone = single_rank_communicator();
  Optimizer optimizer(*backend, *alone, {tensors.group(job)});
  const KernelRates rates = measure_rates(threads, job.recipe.blocking.size);

  const std::int64_t every = job.recipe.refresh.every;
  std::vector<double> plain, refresh;
  for (std::int64_t step = 1; step <= every * (1 + intervals); ++step) {
    tensors.draw_gradients();
    const Clock::time_point begin = Clock::now();
    optimizer.step();
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    if (step > every) (step % every == 0 ? refresh : plain).push_back(took);
  }
  return {name, rates, forecast(job, 1, rates, {}), step_time(plain), step_time(refresh)};
}

}  // namespace shampoo::test
