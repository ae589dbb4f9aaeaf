// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/method.h"

namespace fashion {

namespace {

constexpr double last_layer_factor = 3;

shampoo::Recipe recipe(Method method, const Preconditioning& preconditioning) {
  if (method == Method::adamw) return shampoo::recipes::adamw();
  return {.refresh = {.every = preconditioning.refresh, .first = preconditioning.refresh},
          .blocking = {.size = preconditioning.block, .target_order = 1}};
}

}  // namespace

const char* name(Method method) { return method == Method::shampoo ? "Shampoo" : "AdamW"; }

double rate_factor(int group) { return group < 2 ? 1 : last_layer_factor; }

std::vector<shampoo::ParameterGroup> parameter_groups(Method method,
                                                      const Preconditioning& preconditioning,
                                                      Network<float>& network) {
  shampoo::Rates biases{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
  if (method == Method::shampoo) biases.grafting_beta2 = 0.99;
  shampoo::Rates weights = biases;
  weights.weight_decay = 0.01;

  // Weights, biases, and the same of the last layer.
  std::vector<shampoo::ParameterGroup> groups(4);
  for (int i = 0; i < 4; ++i) {
    groups[i].rates = i % 2 == 0 ? weights : biases;
    groups[i].recipe = recipe(method, preconditioning);
  }
  for (const auto& tensor : network.tensors()) {
    const int last = tensor.name.starts_with("fc2") ? 2 : 0;
    const int bias = tensor.name.ends_with("bias") ? 1 : 0;
    groups[last + bias].parameters.push_back({.name = tensor.name,
                                              .shape = tensor.shape,
                                              .value = tensor.value,
                                              .gradient = tensor.gradient});
  }
  return groups;
}

}  // namespace fashion
