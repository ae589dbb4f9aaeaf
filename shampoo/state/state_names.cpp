// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/state_names.h"

#include <map>
#include <stdexcept>

#include "grouping/joined.h"
#include "shampoo/update/slots.h"

namespace shampoo {

namespace {

/// Name of a state tensor of `owner` that equals or starts with `name`; empty: none does.
std::string confused(const RegisteredParameter& owner, std::string_view name) {
  const Parameter& parameter = owner.parameter();
  for (const grouping::Box& box : owner.boxes)
    for (const Slot& slot : slots_of(owner.group->recipe(), box.extent, parameter.value.type)) {
      const std::string tensor =
          state_name(parameter.name, slot.name, slot.layout, owner.merged, box);
      if (tensor == name || tensor.starts_with(std::string(name) + "/")) return tensor;
    }
  return {};
}

}  // namespace

std::string state_name(std::string_view parameter, std::string_view slot, StateLayout layout,
                       const grouping::Shape& shape, const grouping::Box& box) {
  std::string name = std::string(parameter) + "/" + std::string(slot);
  if (layout != StateLayout::elements || box.extent != shape)
    name += "/" + grouping::joined(box.offset, ".");
  return name;
}

void check_names(std::span<const RegisteredParameter> parameters) {
  std::map<std::string_view, const RegisteredParameter*> by_name;
  for (const RegisteredParameter& registered : parameters)
    if (!registered.thawed) by_name.emplace(registered.parameter().name, &registered);
  for (const RegisteredParameter& registered : parameters) {
    const std::string_view name = registered.parameter().name;
    for (std::size_t at = name.find('/'); at != name.npos; at = name.find('/', at + 1)) {
      const auto owner = by_name.find(name.substr(0, at));
      if (owner == by_name.end()) continue;
      if (const std::string tensor = confused(*owner->second, name); !tensor.empty())
        throw std::invalid_argument(
            registered.title() +
            ": name: must not be the beginning of the name of another parameter's state, '" +
            tensor + "' of '" + std::string(owner->first) + "'");
    }
  }
}

}  // namespace shampoo
