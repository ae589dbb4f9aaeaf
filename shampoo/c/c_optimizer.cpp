// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <stdexcept>

#include "shampoo/c/c_handles.h"

namespace shampoo::c {

namespace {

shampoo::Group& group_of(shampoo_optimizer* optimizer, int group) {
  require(optimizer, "optimizer");
  const int count = optimizer->optimizer.group_count();
  if (group < 0 || group >= count)
    throw std::out_of_range("group: must be in [0, " + std::to_string(count) + "), got " +
                            std::to_string(group));
  return optimizer->optimizer.group(group);
}

std::size_t parameter_of(const shampoo::Group& group, const char* name) {
  require(name, "parameter");
  for (std::size_t j = 0; j < group.parameters().size(); ++j)
    if (group.parameters()[j].name == name) return j;
  throw std::out_of_range(group.title() + ": there is no parameter '" + name + "'");
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

template <typename Value>
shampoo_status set_value(shampoo_user_state* user, const char* name, Value value) {
  return guarded([&] {
    require(user, "user");
    require(name, "name");
    user->user.values[name] = value;
  });
}

template <typename Value>
shampoo_status get_value(const shampoo_user_state* user, const char* name, Value* value) {
  return guarded([&] {
    require(user, "user");
    require(name, "name");
    require(value, "value");
    const auto found = user->user.values.find(name);
    if (found == user->user.values.end() || !std::holds_alternative<Value>(found->second))
      throw std::out_of_range("user state '" + std::string(name) +
                              "': there is no such value, or it"
                              " is of another type");
    *value = std::get<Value>(found->second);
  });
}

}  // namespace

}  // namespace shampoo::c

using namespace shampoo::c;

extern "C" {

shampoo_status shampoo_optimizer_create(shampoo_backend* backend, shampoo_communicator* ranks,
                                        const shampoo_setup* setup, shampoo_optimizer** made) {
  return guarded([&] {
    require(backend, "backend");
    require(ranks, "ranks");
    require(setup, "setup");
    require(made, "made");
    if (!setup->unrouted.empty())
      throw std::invalid_argument("parameter '" + setup->unrouted.front().name +
                                  "': is in no group; call shampoo_begin_group() before it is "
                                  "added, or shampoo_route() behind it");
    *made =
        new shampoo_optimizer{{*backend->backend, *ranks->ranks, setup->groups, setup->options}};
  });
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

shampoo_status shampoo_set_rate(shampoo_optimizer* optimizer, int group, const char* rate,
                                double value) {
  return guarded([&] { set_rate(group_of(optimizer, group).rates, rate, value); });
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
    found.set_rate(parameter_of(found, parameter), rate, value);
  });
}

shampoo_status shampoo_set_gradient(shampoo_optimizer* optimizer, int group, const char* parameter,
                                    void* data) {
  return guarded([&] {
    shampoo::Group& found = group_of(optimizer, group);
    found.set_gradient(parameter_of(found, parameter), data);
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
    optimizer->evaluation->end();
    optimizer->evaluation.reset();
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

shampoo_status shampoo_user_state_create(shampoo_user_state** made) {
  return guarded([&] {
    require(made, "made");
    *made = new shampoo_user_state;
  });
}

void shampoo_user_state_free(shampoo_user_state* user) { delete user; }

shampoo_status shampoo_user_state_add_values(shampoo_user_state* user,
                                             shampoo_optimizer* optimizer) {
  return guarded([&] {
    require(user, "user");
    require(optimizer, "optimizer");
    for (shampoo::UserTensor& tensor : shampoo::value_tensors(optimizer->optimizer))
      user->user.tensors.push_back(std::move(tensor));
  });
}

shampoo_status shampoo_user_state_add_tensor(shampoo_user_state* user, const char* name, int sides,
                                             const int64_t* shape, shampoo_tensor tensor) {
  return guarded([&] {
    require(user, "user");
    require(name, "name");
    user->user.tensors.push_back(
        {name, shape_of(sides, shape),
         tensor_of(tensor, sides, "user state '" + std::string(name) + "'")});
  });
}

shampoo_status shampoo_user_state_add_bytes(shampoo_user_state* user, const char* name, void* data,
                                            int64_t count, int per_rank) {
  return guarded([&] {
    require(user, "user");
    require(name, "name");
    user->user.tensors.push_back(
        {name,
         {count},
         static_cast<std::uint8_t*>(data),
         per_rank ? shampoo::Sharding::per_rank : shampoo::Sharding::shared});
  });
}

shampoo_status shampoo_user_state_set_integer(shampoo_user_state* user, const char* name,
                                              int64_t value) {
  return set_value(user, name, value);
}
shampoo_status shampoo_user_state_set_number(shampoo_user_state* user, const char* name,
                                             double value) {
  return set_value(user, name, value);
}
shampoo_status shampoo_user_state_get_integer(const shampoo_user_state* user, const char* name,
                                              int64_t* value) {
  return get_value(user, name, value);
}
shampoo_status shampoo_user_state_get_number(const shampoo_user_state* user, const char* name,
                                             double* value) {
  return get_value(user, name, value);
}

shampoo_status shampoo_save(shampoo_optimizer* optimizer, const char* directory,
                            const shampoo_user_state* user, int keep_last) {
  return guarded([&] {
    require(optimizer, "optimizer");
    require(directory, "directory");
    save(optimizer->optimizer, directory, user ? user->user : shampoo::UserState(),
         {.keep_last = keep_last});
  });
}

shampoo_status shampoo_resume(shampoo_optimizer* optimizer, const char* directory,
                              shampoo_user_state* user, int64_t* step) {
  return guarded([&] {
    require(optimizer, "optimizer");
    require(directory, "directory");
    const auto loaded = user ? resume(optimizer->optimizer, directory, user->user)
                             : resume(optimizer->optimizer, directory);
    if (step) *step = loaded ? loaded->step : -1;
  });
}

}  // extern "C"
