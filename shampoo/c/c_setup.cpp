// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grouping/number_text.h"
#include "shampoo/c/c_handles.h"
#include "shampoo/routes.h"
#include "shampoo/routing/recipe_names.h"
#include "shampoo/validation/rate_ranges.h"

namespace shampoo::c {

namespace {

/// Where tensors, rates and schedules go now.
ParameterGroup& current(shampoo_setup& setup) {
  return setup.group_begun ? setup.groups.back() : setup.unrouted;
}

void add(shampoo_setup& setup, std::vector<Parameter> added) {
  auto& all = current(setup).parameters;
  all.insert(all.end(), std::make_move_iterator(added.begin()),
             std::make_move_iterator(added.end()));
}
void add_from(shampoo_setup& setup, const shampoo_slab& slab, std::vector<Parameter> added) {
  for (const Parameter& parameter : added)  // an empty one has no memory of its own
    if (grouping::numel(parameter.shape) > 0) setup.slabs[parameter.value.data] = slab.values;
  add(setup, std::move(added));
}

/// A row-major tensor from an element of a slab on.
Tensor tensor_at(void* first, shampoo_type type, const char* field, std::int64_t offset) {
  const Type checked = type_of(type, field);
  const auto bytes = offset * static_cast<std::int64_t>(size_of(checked));
  return {first ? static_cast<std::byte*>(first) + bytes : nullptr, checked};
}

/// The row-major tensor that begins with an element of the slab.
Parameter parameter_at(const shampoo_slab& slab, const char* name, int sides,
                       const std::int64_t* shape, std::int64_t offset) {
  const std::string title = "parameter '" + std::string(name) + "': ";
  if (offset < 0 || offset >= most_elements)
    throw std::invalid_argument(title + "offset: must be in [0, 2^40), got " +
                                std::to_string(offset));
  std::vector<std::int64_t> dims = shape_of(sides, shape);
  for (const std::int64_t side : dims)
    if (side < 0)
      throw std::invalid_argument(title + "shape: sides must be >= 0, got " + std::to_string(side));
  return {.name = name,
          .shape = std::move(dims),
          .value = tensor_at(slab.values, slab.value_type, "slab.value_type", offset),
          .gradient = tensor_at(slab.gradients, slab.gradient_type, "slab.gradient_type", offset)};
}

void require_layers(const std::string& title, const shampoo_entry& entry) {
  const bool is_pattern = std::string_view(entry.name).find("%d") != std::string_view::npos;
  if (entry.layers >= (is_pattern ? 1 : 0) && entry.layers <= most_layers) return;
  throw std::invalid_argument(title + "layers: must be in [" +
                              (is_pattern ? "1, 2^20] for a name with \"%d\"" : "0, 2^20]") +
                              ", got " + std::to_string(entry.layers));
}

/// Adds the parameters of an entry, which begins with element `offset` of the slab. Returns the
/// offset behind it.
std::int64_t add_entry(std::vector<Parameter>& added, const shampoo_slab& slab,
                       const shampoo_entry& entry, std::int64_t offset) {
  require(entry.name, "name");
  constexpr int most_sides = std::size(shampoo_entry{}.shape);
  const std::string title = "'" + std::string(entry.name) + "': ";
  if (entry.sides < 0 || entry.sides > most_sides)
    throw std::invalid_argument(title + "sides: must be in [0, " + std::to_string(most_sides) +
                                "], got " + std::to_string(entry.sides));
  require_layers(title, entry);
  Parameter one = parameter_at(slab, entry.name, entry.sides, entry.shape, offset);
  const std::int64_t elements = grouping::numel(one.shape);
  const std::int64_t layers = std::max<std::int64_t>(entry.layers, 1);
  if (elements >= (most_elements - offset) / layers)
    throw std::invalid_argument(title + "shape: the slab must have less than 2^40 elements");
  if (entry.layers == 0)
    added.push_back(std::move(one));
  else
    std::ranges::move(stacked(one.name, one.shape, one.value, one.gradient, elements, entry.layers),
                      std::back_inserter(added));
  return offset + layers * elements;
}

Route route_of(const char* recipe) {
  const std::string_view text = recipe ? recipe : "";
  if (text.empty()) return {};
  if (const auto named = recipe_named(text)) return *named;
  if (text.find('(') != text.npos) return {.recipe = recipe_from_text(text)};
  throw std::invalid_argument("recipe: must be one of " + recipe_names_text() +
                              ", or a text recipe(...), got '" + std::string(text) + "'");
}

/// The groups of what is to be routed. Rates belong to a recipe; JSON has its own.
std::vector<ParameterGroup> routed(const shampoo_setup& setup, const char* table) {
  const std::string_view text = table ? table : "";
  const bool is_json = text.find_first_of("{[") < text.find('(');
  Routes routes;
  if (is_json) {
    if (!setup.unrouted_rates.empty())
      throw std::invalid_argument("rate '" + setup.unrouted_rates.front().first +
                                  "': was set by shampoo_setup_rate(), but JSON has rates of its "
                                  "own; put it into \"rates\"");
    routes = Routes::from_json(text);
  } else {
    Route matrices = route_of(table);
    for (const auto& [rate, value] : setup.unrouted_rates)
      set_rate(matrices.rates, rate.c_str(), value);
    routes = routes::language_model(matrices.recipe, matrices.rates);
  }
  auto groups = routes.groups(setup.unrouted.parameters);
  for (const auto& [rate, schedule] : setup.unrouted.schedules) {
    bool is_read = groups.empty();
    for (ParameterGroup& group : groups)
      if (RateRanges(group.recipe).reads(rate)) {
        group.schedules[rate] = schedule;
        is_read = true;
      }
    if (!is_read)
      throw std::invalid_argument("schedule: rate '" + rate + "' is read by none of the groups");
  }
  return groups;
}

shampoo_status schedule(shampoo_setup* setup, const char* rate,
                        const std::function<Schedule()>& make) {
  return guarded([&] {
    require(setup, "setup");
    require(rate, "rate");
    current(*setup).schedules[std::string(RateField(rate).name())] = make();
  });
}

}  // namespace

}  // namespace shampoo::c

using namespace shampoo::c;

extern "C" {

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
    setup->group_begun = true;
  });
}

shampoo_status shampoo_setup_rate(shampoo_setup* setup, const char* rate, double value) {
  return guarded([&] {
    require(setup, "setup");
    require(rate, "rate");
    if (setup->group_begun)
      set_rate(setup->groups.back().rates, rate, value);
    else
      setup->unrouted_rates.emplace_back(shampoo::RateField(rate).name(), value);
  });
}

shampoo_status shampoo_setup_schedule(shampoo_setup* setup, const char* rate,
                                      double (*factor)(int64_t step, void* context),
                                      void* context) {
  return schedule(setup, rate, [&] {
    if (!factor) throw std::invalid_argument("factor: must not be NULL");
    return shampoo::schedules::Function{[=](std::int64_t step) { return factor(step, context); }};
  });
}

shampoo_status shampoo_setup_warm_up_stable_decay(shampoo_setup* setup, const char* rate,
                                                  int64_t warm_up, int64_t stable, int64_t decay) {
  return schedule(setup, rate, [&] {
    return shampoo::schedules::WarmUpStableDecay{
        .warm_up = warm_up, .stable = stable, .decay = decay};
  });
}

shampoo_status shampoo_add_tensor(shampoo_setup* setup, const char* name, int sides,
                                  const int64_t* shape, shampoo_tensor value,
                                  shampoo_tensor gradient) {
  return guarded([&] {
    require(setup, "setup");
    require(name, "name");
    const std::string title = "parameter '" + std::string(name) + "': ";
    add(*setup, {{.name = name,
                  .shape = shape_of(sides, shape),
                  .value = tensor_of(value, sides, title + "value"),
                  .gradient = tensor_of(gradient, sides, title + "gradient")}});
  });
}

shampoo_status shampoo_add_from_slab(shampoo_setup* setup, const char* name, int sides,
                                     const int64_t* shape, const shampoo_slab* slab,
                                     int64_t offset) {
  return guarded([&] {
    require(setup, "setup");
    require(name, "name");
    require(slab, "slab");
    add_from(*setup, *slab, {parameter_at(*slab, name, sides, shape, offset)});
  });
}

shampoo_status shampoo_add_stacked(shampoo_setup* setup, const char* pattern, int sides,
                                   const int64_t* shape, const shampoo_slab* slab, int64_t first,
                                   int64_t stride, int64_t count) {
  return guarded([&] {
    require(setup, "setup");
    require(pattern, "pattern");
    require(slab, "slab");
    const shampoo::Parameter one = parameter_at(*slab, pattern, sides, shape, first);
    add_from(*setup, *slab, stacked(pattern, one.shape, one.value, one.gradient, stride, count));
  });
}

shampoo_status shampoo_add_slab(shampoo_setup* setup, const shampoo_slab* slab,
                                const shampoo_entry* entries, size_t count, int64_t* elements) {
  return guarded([&] {
    require(setup, "setup");
    require(slab, "slab");
    if (count > 0) require(entries, "entries");
    std::vector<shampoo::Parameter> added;
    std::int64_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
      try {
        offset = add_entry(added, *slab, entries[i], offset);
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument("entries[" + std::to_string(i) + "]: " + error.what());
      }
    }
    add_from(*setup, *slab, std::move(added));
    if (elements) *elements = offset;
  });
}

shampoo_status shampoo_route(shampoo_setup* setup, const char* how) {
  return guarded([&] {
    require(setup, "setup");
    auto groups = routed(*setup, how);
    setup->groups.insert(setup->groups.end(), std::make_move_iterator(groups.begin()),
                         std::make_move_iterator(groups.end()));
    setup->unrouted = {};
    setup->unrouted_rates.clear();
    setup->group_begun = false;
  });
}

shampoo_status shampoo_clip(shampoo_setup* setup, shampoo_clipping clipping, double limit) {
  return guarded([&] {
    require(setup, "setup");
    shampoo::Clipping& chosen = setup->options.gradients.clipping;
    switch (clipping) {
      case SHAMPOO_CLIP_NONE:
        if (limit != 0)
          throw std::invalid_argument("limit: must be 0 with SHAMPOO_CLIP_NONE, got " +
                                      shampoo::grouping::exact_text(limit));
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

shampoo_status shampoo_scale_loss(shampoo_setup* setup, shampoo_loss_scaling scaling,
                                  double scale) {
  return guarded([&] {
    require(setup, "setup");
    shampoo::LossScaling& chosen = setup->options.gradients.loss_scaling;
    switch (scaling) {
      case SHAMPOO_LOSS_SCALE_NONE:
        chosen = shampoo::NoLossScale{};
        return;
      case SHAMPOO_LOSS_SCALE_FIXED:
        chosen = shampoo::FixedLossScale{scale};
        return;
      case SHAMPOO_LOSS_SCALE_DYNAMIC:
        chosen = shampoo::DynamicLossScale{.initial = scale};
        return;
    }
    throw std::invalid_argument("scaling: must be in [0, 2], got " +
                                std::to_string(static_cast<int>(scaling)));
  });
}

shampoo_status shampoo_guard_spikes(shampoo_setup* setup, double deviations, int window) {
  return guarded([&] {
    require(setup, "setup");
    setup->options.gradients.spike_guard = {deviations, window};
  });
}

}  // extern "C"
