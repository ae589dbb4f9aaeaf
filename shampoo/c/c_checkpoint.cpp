// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <utility>

#include "shampoo/c/c_handles.h"
#include "shampoo/checkpoint/snapshot.h"

namespace shampoo::c {

namespace {

/// Adds a tensor that a save will take.
void add_valid(shampoo_user_state& user, UserTensor tensor) {
  validate_user_state({.tensors = {tensor}});
  user.user.tensors.push_back(std::move(tensor));
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
    add_valid(*user, {name, shape_of(sides, shape),
                      tensor_of(tensor, sides, "user state '" + std::string(name) + "'")});
  });
}

shampoo_status shampoo_user_state_add_bytes(shampoo_user_state* user, const char* name, void* data,
                                            int64_t count, int per_rank) {
  return guarded([&] {
    require(user, "user");
    require(name, "name");
    add_valid(*user, {name,
                      {count},
                      static_cast<std::uint8_t*>(data),
                      per_rank ? shampoo::Sharding::per_rank : shampoo::Sharding::shared});
  });
}

shampoo_status shampoo_user_state_other_ranks(shampoo_user_state* user, int keep) {
  return guarded([&] {
    require(user, "user");
    user->other_ranks = keep ? shampoo::OtherRanks::keep : shampoo::OtherRanks::refuse;
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
    const auto loaded = user ? resume(optimizer->optimizer, directory, user->user,
                                      {.other_ranks = user->other_ranks})
                             : resume(optimizer->optimizer, directory);
    if (step) *step = loaded ? loaded->step : -1;
  });
}

shampoo_status shampoo_load(shampoo_optimizer* optimizer, const char* path,
                            shampoo_user_state* user, int64_t* step) {
  return guarded([&] {
    require(optimizer, "optimizer");
    require(path, "path");
    const auto loaded =
        user ? load(optimizer->optimizer, path, user->user, {.other_ranks = user->other_ranks})
             : load(optimizer->optimizer, path);
    if (step) *step = loaded.step;
  });
}

}  // extern "C"
