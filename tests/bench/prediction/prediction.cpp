// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/prediction.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "distributor/communicator.h"
#include "grouping/blocks.h"
#include "kernels/buffer.h"
#include "kernels/cuda/device_backend.h"
#include "shampoo/optimizer.h"
#include "tests/bench/prediction/kernel_assumptions.h"

namespace shampoo::test {

namespace {

void add_up(PredictedLine& line, const DeviceModel& machine) {
  const KernelAssumption* const assumed =
      assumption_of(line.kernel.substr(0, line.kernel.find('<')));
  const auto launches = static_cast<double>(line.launches);
  double ms = 0;
  if (assumed != nullptr) {
    line.unit = assumed->unit;
    line.assumption = assumed->text;
    const double memory = line.cost.bytes / (machine.rates.terabytes_per_second * 1e9);
    const double arithmetic = line.cost.flops / (machine.teraflops_of(line.unit) * 1e9);
    const double start = static_cast<double>(line.blocks) / (machine.blocks_per_us * 1e3);
    ms = std::max(std::max(memory, arithmetic) / assumed->share, start);
  }
  line.ms = ms + launches * machine.launch_us / 1e3;
}

}  // namespace

double PredictedStep::ms() const {
  double sum = 0;
  for (const PredictedLine& line : lines) sum += line.ms;
  return sum;
}

std::int64_t PredictedStep::launches() const {
  std::int64_t sum = 0;
  for (const PredictedLine& line : lines) sum += line.launches;
  return sum;
}

bool PredictedStep::is_complete() const {
  return std::ranges::none_of(lines,
                              [](const PredictedLine& line) { return line.assumption.empty(); });
}

PredictedStep predicted_step(const std::vector<Launch>& launches, const DeviceModel& machine) {
  PredictedStep step;
  for (const Launch& launch : launches) {
    auto line = std::ranges::find_if(step.lines, [&](const PredictedLine& known) {
      return known.range == launch.range && known.kernel == launch.name;
    });
    if (line == step.lines.end()) {
      line = step.lines.emplace(line);
      line->range = launch.range;
      line->kernel = launch.name;
    }
    ++line->launches;
    line->blocks += launch.blocks;
    line->cost += launch.cost;
  }
  for (PredictedLine& line : step.lines) add_up(line, machine);
  return step;
}

PlannedRun planned_run(const Model& model, const NamedRecipe& recipe, Type type, int steps,
                       const OptimizerOptions& options) {
  auto planned = std::make_unique<PlannedDevice>();
  PlannedDevice& device = *planned;
  kernels::cuda::DeviceBackend backend(std::move(planned));

  ParameterGroup group;
  group.rates = recipe.rates;
  group.rates.weight_decay = 0.1;
  group.recipe = recipe.recipe;
  const bool matrices_only = std::holds_alternative<Spectral>(recipe.recipe.preconditioner);
  std::vector<kernels::Buffer> memory;
  for (const Model::Tensor& tensor : model.tensors) {
    if (matrices_only &&
        std::ranges::count_if(tensor.shape, [](auto side) { return side > 1; }) < 2)
      continue;
    const auto bytes = static_cast<std::size_t>(grouping::numel(tensor.shape)) * size_of(type);
    memory.emplace_back(backend, bytes);
    void* const value = memory.back().data();
    memory.emplace_back(backend, bytes);
    group.parameters.push_back({.name = tensor.name,
                                .shape = tensor.shape,
                                .value = {value, type},
                                .gradient = {memory.back().data(), type}});
  }
  const auto ranks = single_rank_communicator(MemoryKind::cuda);
  Optimizer optimizer(backend, *ranks, {group}, options);
  PlannedRun run;
  device.take();
  for (int step = 0; step < steps; ++step) {
    optimizer.step();
    run.steps.push_back(device.take());
  }
  run.state_bytes = optimizer.state_bytes();
  run.workspace_bytes = optimizer.workspace_bytes() + backend.memory_use().scratch;
  return run;
}

}  // namespace shampoo::test
