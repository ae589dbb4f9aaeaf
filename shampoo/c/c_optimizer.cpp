// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "shampoo/c/c_handles.h"
#include "shampoo/distributor/rendezvous/join.h"

namespace shampoo::c {

namespace {

shampoo::Group& group_of(shampoo_optimizer* optimizer, int group) {
  require(optimizer, "optimizer");
  return optimizer->optimizer.group(group);
}

std::size_t parameter_of(const shampoo::Group& group, const char* name) {
  require(name, "parameter");
  return group.find(name);
}

/// Throws std::invalid_argument for a rate that every step sets.
void require_unscheduled(const shampoo::Group& group, const char* rate) {
  if (rate && group.schedules.contains(rate))
    throw std::invalid_argument(group.title() + ": rate '" + rate +
                                "': has a schedule, which sets it in every step; change it in the "
                                "factor of shampoo_setup_schedule(), or make the optimizer without "
                                "the schedule");
}

void require_all_routed(const shampoo_setup& setup) {
  const auto fail = [](const std::string& what) {
    throw std::invalid_argument(what +
                                ": is in no group; call shampoo_begin_group() before it is "
                                "added, or shampoo_route() behind it");
  };
  if (!setup.unrouted.parameters.empty())
    fail("parameter '" + setup.unrouted.parameters.front().name + "'");
  if (!setup.unrouted_rates.empty()) fail("rate '" + setup.unrouted_rates.front().first + "'");
  if (!setup.unrouted.schedules.empty())
    fail("schedule of '" + setup.unrouted.schedules.begin()->first + "'");
}

/// Where the gradient of a tensor begins, which is in the slab where its value is.
Tensor gradient_at(const shampoo_slab& slab, const Tensor& value) {
  const Type type = type_of(slab.gradient_type, "slab.gradient_type");
  const std::int64_t bytes =
      static_cast<const std::byte*>(value.data) - static_cast<const std::byte*>(slab.values);
  const auto offset = bytes / static_cast<std::int64_t>(size_of(value.type));
  if (!slab.gradients) return {nullptr, type};
  return {
      static_cast<std::byte*>(slab.gradients) + offset * static_cast<std::int64_t>(size_of(type)),
      type};
}

void set_gradients(shampoo_optimizer& optimizer, const shampoo_slab& slab) {
  struct Before {
    shampoo::Group& group;
    std::size_t parameter;
    void* data;
  };
  std::vector<Before> before;
  try {
    for (int g = 0; g < optimizer.optimizer.group_count(); ++g) {
      shampoo::Group& group = optimizer.optimizer.group(g);
      for (std::size_t j = 0; j < group.parameters().size(); ++j) {
        const shampoo::Parameter& parameter = group.parameters()[j];
        const auto found = optimizer.slabs.find(parameter.value.data);
        if (found == optimizer.slabs.end() || found->second != slab.values) continue;
        before.push_back({group, j, parameter.gradient.data});
        group.set_gradient(j, gradient_at(slab, parameter.value));
      }
    }
  } catch (...) {
    for (const Before& one : before) one.group.set_gradient(one.parameter, one.data);
    throw;
  }
  if (before.empty())
    throw std::invalid_argument(
        "slab.values: must be where the values of a slab begin that tensors were added from");
}

/// Keeps the text for the caller.
template <typename Call>
const char* text_of(shampoo_optimizer* optimizer, const Call& call) {
  const shampoo_status status = guarded([&] {
    require(optimizer, "optimizer");
    optimizer->text = call();
  });
  return status == SHAMPOO_OK ? optimizer->text.c_str() : nullptr;
}

}  // namespace

}  // namespace shampoo::c

using namespace shampoo::c;

extern "C" {

shampoo_status shampoo_optimizer_create(shampoo_backend* backend, shampoo_communicator* ranks,
                                        const shampoo_setup* setup, shampoo_optimizer** made) {
  return guarded([&] {
    require(setup, "setup");
    require(made, "made");
    require_all_routed(*setup);
    std::unique_ptr<shampoo_backend> own_backend;
    std::unique_ptr<shampoo_communicator> own_ranks;
    if (!backend) own_backend.reset(backend = new shampoo_backend{shampoo::cpu_backend()});
    if (!ranks) own_ranks.reset(ranks = new shampoo_communicator{shampoo::join(*backend->backend)});
    *made =
        new shampoo_optimizer{std::move(own_backend),
                              std::move(own_ranks),
                              ranks,
                              setup->slabs,
                              std::nullopt,
                              {*backend->backend, *ranks->ranks, setup->groups, setup->options}};
  });
}

shampoo_communicator* shampoo_optimizer_ranks(shampoo_optimizer* optimizer) {
  return optimizer ? optimizer->ranks : nullptr;
}

void shampoo_optimizer_free(shampoo_optimizer* optimizer) { delete optimizer; }

shampoo_status shampoo_step(shampoo_optimizer* optimizer) {
  return guarded([&] {
    require(optimizer, "optimizer");
    optimizer->optimizer.step();
  });
}

shampoo_status shampoo_latest_step(shampoo_optimizer* optimizer, int* applied,
                                   double* gradient_norm, double* clip_factor) {
  return guarded([&] {
    require(optimizer, "optimizer");
    const shampoo::StepResult result = optimizer->optimizer.latest_result();
    if (applied) *applied = result.applied() ? 1 : 0;
    if (gradient_norm) *gradient_norm = result.gradient_norm();
    if (clip_factor) *clip_factor = result.clip_factor();
  });
}

shampoo_status shampoo_non_finite(shampoo_optimizer* optimizer, const char** gradient,
                                  const char** direction) {
  return guarded([&] {
    require(optimizer, "optimizer");
    const shampoo::StepResult result = optimizer->optimizer.latest_result();
    const auto text = [](std::string_view name) { return name.empty() ? "" : name.data(); };
    if (gradient) *gradient = text(result.non_finite_gradient());
    if (direction) *direction = text(result.non_finite_direction());
  });
}

shampoo_status shampoo_loss_scale(const shampoo_optimizer* optimizer, double* scale) {
  return guarded([&] {
    require(optimizer, "optimizer");
    require(scale, "scale");
    *scale = optimizer->optimizer.loss_scale();
  });
}

shampoo_status shampoo_set_rate(shampoo_optimizer* optimizer, int group, const char* rate,
                                double value) {
  return guarded([&] {
    shampoo::Group& found = group_of(optimizer, group);
    require_unscheduled(found, rate);
    set_rate(found.rates, rate, value);
  });
}

shampoo_status shampoo_get_rate(shampoo_optimizer* optimizer, int group, const char* rate,
                                double* value) {
  return guarded([&] {
    require(rate, "rate");
    require(value, "value");
    *value = shampoo::RateField(rate)
                 .of(group_of(optimizer, group).rates)
                 .value_or(std::numeric_limits<double>::quiet_NaN());
  });
}

shampoo_status shampoo_set_parameter_rate(shampoo_optimizer* optimizer, int group,
                                          const char* parameter, const char* rate, double value) {
  return guarded([&] {
    require(rate, "rate");
    shampoo::Group& found = group_of(optimizer, group);
    const std::size_t j = parameter_of(found, parameter);
    std::isnan(value) ? found.clear_rate(j, rate) : found.set_rate(j, rate, value);
  });
}

shampoo_status shampoo_set_gradient(shampoo_optimizer* optimizer, int group, const char* parameter,
                                    void* data) {
  return guarded([&] {
    shampoo::Group& found = group_of(optimizer, group);
    found.set_gradient(parameter_of(found, parameter), data);
  });
}

shampoo_status shampoo_set_gradients(shampoo_optimizer* optimizer, const shampoo_slab* slab) {
  return guarded([&] {
    require(optimizer, "optimizer");
    require(slab, "slab");
    set_gradients(*optimizer, *slab);
  });
}

shampoo_status shampoo_average_gradients(shampoo_optimizer* optimizer) {
  return guarded([&] {
    require(optimizer, "optimizer");
    optimizer->optimizer.average_gradients();
  });
}

shampoo_status shampoo_zero_gradients(shampoo_optimizer* optimizer) {
  return guarded([&] {
    require(optimizer, "optimizer");
    optimizer->optimizer.zero_gradients();
  });
}

shampoo_status shampoo_read_values(shampoo_optimizer* optimizer) {
  return guarded([&] {
    require(optimizer, "optimizer");
    optimizer->optimizer.read_values();
  });
}

shampoo_status shampoo_evaluate(shampoo_optimizer* optimizer) {
  return guarded([&] {
    require(optimizer, "optimizer");
    shampoo::Evaluation evaluation = optimizer->optimizer.evaluate();
    optimizer->evaluation.emplace(std::move(evaluation));
  });
}

shampoo_status shampoo_end_evaluation(shampoo_optimizer* optimizer) {
  return guarded([&] {
    require(optimizer, "optimizer");
    if (!optimizer->evaluation)
      throw std::logic_error("shampoo_end_evaluation: there was no shampoo_evaluate()");
    shampoo::Evaluation evaluation = std::move(*optimizer->evaluation);
    optimizer->evaluation.reset();
    evaluation.end();
  });
}

shampoo_status shampoo_steps(const shampoo_optimizer* optimizer, const char* parameter,
                             int64_t* steps) {
  return guarded([&] {
    require(optimizer, "optimizer");
    require(parameter, "parameter");
    require(steps, "steps");
    *steps = optimizer->optimizer.steps(parameter);
  });
}

int shampoo_group_count(const shampoo_optimizer* optimizer) {
  return optimizer ? optimizer->optimizer.group_count() : -1;
}

const char* shampoo_describe(shampoo_optimizer* optimizer) {
  return text_of(optimizer, [&] { return optimizer->optimizer.describe(); });
}

const char* shampoo_group_label(shampoo_optimizer* optimizer, int group) {
  return text_of(optimizer, [&] { return group_of(optimizer, group).label(); });
}

const char* shampoo_group_recipe(shampoo_optimizer* optimizer, int group) {
  return text_of(optimizer, [&] { return canonical_text(group_of(optimizer, group).recipe()); });
}

}  // extern "C"
