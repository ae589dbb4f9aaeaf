// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string_view>

#include "shampoo/c/c_handles.h"
#include "shampoo/distributor/rendezvous/join.h"
#include "shampoo/routes.h"
#include "shampoo/routing/recipe_names.h"

namespace shampoo::c {

namespace {

/// Where tensors are added now.
std::vector<Parameter>& parameters_of(shampoo_setup& setup) {
  return setup.groups.empty() ? setup.unrouted : setup.groups.back().parameters;
}

void add(shampoo_setup& setup, const char* name, int sides, const std::int64_t* shape,
         const shampoo_tensor& value, const shampoo_tensor& gradient) {
  const std::string title = "parameter '" + std::string(name) + "': ";
  parameters_of(setup).push_back({.name = name,
                                  .shape = shape_of(sides, shape),
                                  .value = tensor_of(value, sides, title + "value"),
                                  .gradient = tensor_of(gradient, sides, title + "gradient")});
}

shampoo_tensor element(void* first, shampoo_type type, const char* field, std::int64_t offset) {
  if (!first) return {nullptr, type, nullptr};
  const auto bytes = static_cast<std::int64_t>(size_of(type_of(type, field)));
  return {static_cast<std::byte*>(first) + offset * bytes, type, nullptr};
}

void add_from(shampoo_setup& setup, const char* name, int sides, const std::int64_t* shape,
              const shampoo_slab& slab, std::int64_t offset) {
  if (offset < 0)
    throw std::invalid_argument("parameter '" + std::string(name) +
                                "': offset: must be >= 0, got " + std::to_string(offset));
  add(setup, name, sides, shape, element(slab.values, slab.value_type, "slab.value_type", offset),
      element(slab.gradients, slab.gradient_type, "slab.gradient_type", offset));
}

/// The parts of a pattern before and behind "%d".
std::pair<std::string_view, std::string_view> parts_of(std::string_view pattern) {
  const std::size_t place = pattern.find('%');
  if (place == pattern.npos || pattern.substr(place, 2) != "%d" ||
      pattern.find('%', place + 1) != pattern.npos)
    throw std::invalid_argument("pattern: must have \"%d\" once and no other '%', got '" +
                                std::string(pattern) + "'");
  return {pattern.substr(0, place), pattern.substr(place + 2)};
}

Route route_of(const char* recipe) {
  const std::string_view text = recipe ? recipe : "";
  if (text.empty()) return {};
  if (const auto named = recipe_named(text)) return *named;
  if (text.find('(') != text.npos) return {.recipe = recipe_from_text(text)};
  throw std::invalid_argument("recipe: must be one of " + recipe_names_text() +
                              ", or a text recipe(...), got '" + std::string(text) + "'");
}

}  // namespace

}  // namespace shampoo::c

using namespace shampoo::c;

extern "C" {

shampoo_status shampoo_cpu_backend(int threads, shampoo_backend** made) {
  return guarded([&] {
    require(made, "made");
    *made = new shampoo_backend{shampoo::cpu_backend({.threads = threads})};
  });
}

shampoo_status shampoo_cuda_backend(int device, void* stream, shampoo_backend** made) {
  return guarded([&] {
    require(made, "made");
    *made = new shampoo_backend{shampoo::cuda_backend({.device = device, .stream = stream})};
  });
}

shampoo_status shampoo_local_rank(int* local_rank) {
  return guarded([&] {
    require(local_rank, "local_rank");
    *local_rank = shampoo::local_rank_of_launcher();
  });
}

void shampoo_backend_free(shampoo_backend* backend) { delete backend; }

shampoo_status shampoo_join(shampoo_backend* backend, shampoo_communicator** made) {
  return guarded([&] {
    require(backend, "backend");
    require(made, "made");
    *made = new shampoo_communicator{shampoo::join(*backend->backend)};
  });
}

shampoo_status shampoo_single_rank(shampoo_backend* backend, shampoo_communicator** made) {
  return guarded([&] {
    require(backend, "backend");
    require(made, "made");
    *made = new shampoo_communicator{
        shampoo::single_rank_communicator(backend->backend->memory_kind())};
  });
}

void shampoo_communicator_free(shampoo_communicator* ranks) { delete ranks; }
int shampoo_rank(const shampoo_communicator* ranks) { return ranks ? ranks->ranks->rank() : -1; }
int shampoo_size(const shampoo_communicator* ranks) { return ranks ? ranks->ranks->size() : -1; }

shampoo_status shampoo_average(shampoo_communicator* ranks, const shampoo_span* spans, size_t count,
                               void* stream) {
  return guarded([&] {
    require(ranks, "ranks");
    if (count > 0) require(spans, "spans");
    std::vector<shampoo::TensorSpan> tensors;
    for (size_t i = 0; i < count; ++i)
      tensors.push_back({spans[i].data, spans[i].count, type_of(spans[i].type, "spans.type")});
    ranks->ranks->average(tensors, {stream});
  });
}

shampoo_status shampoo_broadcast(shampoo_communicator* ranks, shampoo_span span, int root,
                                 void* stream) {
  return guarded([&] {
    require(ranks, "ranks");
    const auto size = static_cast<std::int64_t>(size_of(type_of(span.type, "span.type")));
    ranks->ranks->broadcast(span.data, span.count * size, root, {.stream = {stream}}).wait();
  });
}

shampoo_status shampoo_setup_create(shampoo_setup** made) {
  return guarded([&] {
    require(made, "made");
    *made = new shampoo_setup;
  });
}

void shampoo_setup_free(shampoo_setup* setup) { delete setup; }

shampoo_status shampoo_begin_group(shampoo_setup* setup, const char* label, const char* recipe) {
  return guarded([&] {
    require(setup, "setup");
    const shampoo::Route route = route_of(recipe);
    setup->groups.push_back(
        {.rates = route.rates, .recipe = route.recipe, .label = label ? label : ""});
  });
}

shampoo_status shampoo_setup_rate(shampoo_setup* setup, const char* rate, double value) {
  return guarded([&] {
    require(setup, "setup");
    require(rate, "rate");
    if (setup->groups.empty()) throw std::logic_error("shampoo_setup_rate: there is no group yet");
    set_rate(setup->groups.back().rates, rate, value);
  });
}

shampoo_status shampoo_add_tensor(shampoo_setup* setup, const char* name, int sides,
                                  const int64_t* shape, shampoo_tensor value,
                                  shampoo_tensor gradient) {
  return guarded([&] {
    require(setup, "setup");
    require(name, "name");
    add(*setup, name, sides, shape, value, gradient);
  });
}

shampoo_status shampoo_add_from_slab(shampoo_setup* setup, const char* name, int sides,
                                     const int64_t* shape, const shampoo_slab* slab,
                                     int64_t offset) {
  return guarded([&] {
    require(setup, "setup");
    require(name, "name");
    require(slab, "slab");
    add_from(*setup, name, sides, shape, *slab, offset);
  });
}

shampoo_status shampoo_add_stacked(shampoo_setup* setup, const char* pattern, int sides,
                                   const int64_t* shape, const shampoo_slab* slab, int64_t first,
                                   int64_t stride, int64_t count) {
  return guarded([&] {
    require(setup, "setup");
    require(pattern, "pattern");
    require(slab, "slab");
    const auto [before, behind] = parts_of(pattern);
    if (count < 1)
      throw std::invalid_argument("'" + std::string(pattern) + "': count: must be >= 1, got " +
                                  std::to_string(count));
    shampoo_setup added;
    for (std::int64_t layer = 0; layer < count; ++layer) {
      std::string name(before);
      name.append(std::to_string(layer)).append(behind);
      add_from(added, name.c_str(), sides, shape, *slab, first + layer * stride);
    }
    auto& all = parameters_of(*setup);
    all.insert(all.end(), added.unrouted.begin(), added.unrouted.end());
  });
}

shampoo_status shampoo_route(shampoo_setup* setup, const char* json) {
  return guarded([&] {
    require(setup, "setup");
    require(json, "json");
    auto groups = shampoo::Routes::from_json(json).groups(setup->unrouted);
    setup->groups.insert(setup->groups.end(), groups.begin(), groups.end());
    setup->unrouted.clear();
  });
}

shampoo_status shampoo_clip(shampoo_setup* setup, shampoo_clipping clipping, double limit) {
  return guarded([&] {
    require(setup, "setup");
    shampoo::Clipping& chosen = setup->options.gradients.clipping;
    switch (clipping) {
      case SHAMPOO_CLIP_NONE:
        chosen = shampoo::NoClipping{};
        return;
      case SHAMPOO_CLIP_GLOBAL_NORM:
        chosen = shampoo::ClipGlobalNorm{limit};
        return;
      case SHAMPOO_CLIP_PARAMETER_NORM:
        chosen = shampoo::ClipParameterNorm{limit};
        return;
      case SHAMPOO_CLIP_VALUE:
        chosen = shampoo::ClipValue{limit};
        return;
    }
    throw std::invalid_argument("clipping: must be in [0, 3], got " +
                                std::to_string(static_cast<int>(clipping)));
  });
}

}  // extern "C"
