// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "examples/checksum.h"
#include "examples/gpt2_slab/layout.h"
#include "examples/gpt2_slab/options.h"
#include "examples/gpt2_slab/slab.h"
#include "examples/gpt2_slab/synthetic.h"
#include "shampoo/shampoo.h"

namespace gpt2_slab {

namespace {

/// Learning rate, decay and recipe of a tensor. Matrices get Shampoo; embeddings, whose rows are
/// many and seldom used, and vectors AdamW.
shampoo::ParameterGroup group_for(Kind kind, double learning_rate) {
  shampoo::ParameterGroup group;
  group.rates.learning_rate = learning_rate;
  group.rates.weight_decay = kind == Kind::vector ? 0 : 0.1;
  if (kind != Kind::matrix) group.recipe = shampoo::recipes::adamw();
  return group;
}

/// A group for each kind of tensor in each layer. They are merged into one virtual group for each
/// recipe.
std::vector<shampoo::ParameterGroup> groups_of(const Options& options, const Slab& values,
                                               const Slab& gradients) {
  std::vector<shampoo::ParameterGroup> groups;
  const std::vector<StackedTensor> stacked = stacked_tensors(options.size);
  const std::vector<LayerTensor> tensors = layer_tensors(options.size);
  std::size_t next = 0;
  for (const StackedTensor& stack : stacked)
    for (std::int64_t layer = 0; layer < (stack.per_layer ? options.size.layers : 1); ++layer) {
      const LayerTensor& tensor = tensors[next++];
      const double depth =
          stack.per_layer ? static_cast<double>(options.size.layers - 1 - layer) : 0;
      groups.push_back(
          group_for(tensor.kind, options.learning_rate * std::pow(options.layer_decay, depth)));
      groups.back().parameters.push_back(
          {.name = tensor.name,
           .shape = tensor.shape,
           .value = {values.at(tensor.offset), shampoo::Type::bfloat16},
           .gradient = {gradients.at(tensor.offset), shampoo::Type::bfloat16}});
    }
  return groups;
}

std::unique_ptr<shampoo::Backend> backend_named(const std::string& name) {
  if (name == "cuda") return shampoo::cuda_backend({.device = shampoo::local_rank_of_launcher()});
  return shampoo::cpu_backend();
}

/// The values, which belong to the trainer, for a checkpoint.
shampoo::UserState values_of(shampoo::Optimizer& optimizer) {
  shampoo::UserState user;
  for (int g = 0; g < optimizer.group_count(); ++g)
    for (const shampoo::Parameter& parameter : optimizer.group(g).parameters())
      user.tensors.push_back({parameter.name, parameter.shape, parameter.value});
  return user;
}

/// The steps that the latest checkpoint has behind it; 0 if there is none.
int resume(const Options& options, shampoo::Optimizer& optimizer, Slab& values) {
  if (options.checkpoints.empty()) return 0;
  shampoo::UserState user = values_of(optimizer);
  const auto loaded = shampoo::resume(optimizer, options.checkpoints, user);
  values.read();
  return loaded ? static_cast<int>(loaded->step) : 0;
}

int run(const Options& options) {
  const auto backend = backend_named(options.backend);
  const auto ranks = shampoo::join(*backend);
  const bool speaks = ranks->rank() == 0;

  const std::int64_t elements = elements_of(layer_tensors(options.size));
  Slab values(*backend, elements), gradients(*backend, elements);
  Synthetic::initialise(values);
  values.write();
  const Synthetic model(elements, options.noise);
  shampoo::Optimizer optimizer(*backend, *ranks, groups_of(options, values, gradients));
  if (speaks)
    std::printf("%" PRId64 " numbers in %d groups on %s\n\n%s\n", elements, optimizer.group_count(),
                backend->description().c_str(), optimizer.describe().c_str());

  const int taken = resume(options, optimizer, values);
  if (speaks && taken > 0) std::printf("goes on after step %d\n", taken);
  for (int step = taken + 1; step <= options.steps; ++step) {
    const double loss = model.gradients(values, step, gradients);
    gradients.write();
    const auto begin = std::chrono::steady_clock::now();
    const shampoo::StepResult result = optimizer.step();
    backend->synchronize();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    values.read();
    if (speaks && (step == 1 || step % 10 == 0))
      std::printf("step %4d   loss %.3e   gradient norm %.3e   %8.2f ms\n", step, loss,
                  result.gradient_norm(), time.count());
    if (!options.checkpoints.empty() && step % options.every == 0)
      shampoo::save(optimizer, options.checkpoints, values_of(optimizer), {.keep_last = 2});
  }
  if (speaks)
    std::printf("checksum %016" PRIx64 "\n",
                examples::checksum(std::as_bytes(std::span(values.host))));
  return 0;
}

}  // namespace
}  // namespace gpt2_slab

int main(int argc, char** argv) {
  try {
    const auto options = gpt2_slab::read_options(argc, argv);
    return options ? gpt2_slab::run(*options) : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt2_slab: %s\n", error.what());
    return 1;
  }
}
