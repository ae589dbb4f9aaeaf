// SPDX-License-Identifier: Apache-2.0
// Parameters, blocks and slots by name.
#include <stdexcept>

#include "shampoo/update/engine.h"

namespace shampoo {

const RegisteredParameter& Engine::find(std::string_view name) const {
  for (const RegisteredParameter& registered : parameters_)
    if (registered.parameter().name == name && !registered.thawed) return registered;
  throw std::invalid_argument("there is no parameter '" + std::string(name) + "'");
}

std::pair<const GroupStep*, int> Engine::locate(std::string_view parameter, int block) const {
  const RegisteredParameter& registered = find(parameter);
  const int row = static_cast<int>(&registered - parameters_.data());
  for (const auto& group : group_steps_) {
    const std::span<const OwnedBlock> blocks = group->blocks();
    for (std::size_t b = 0; b < blocks.size(); ++b)
      if (blocks[b].parameter == row && blocks[b].index == block)
        return {group.get(), static_cast<int>(b)};
  }
  throw std::invalid_argument("parameter '" + std::string(parameter) + "' has no block " +
                              std::to_string(block) + " on this rank");
}

std::vector<std::string> Engine::slot_names(std::string_view parameter, int block) const {
  const auto [group, b] = locate(parameter, block);
  std::vector<std::string> names;
  for (const Slot& slot : group->state().slots(b)) names.push_back(slot.name);
  return names;
}

SlotView Engine::slot(std::string_view parameter, int block, std::string_view slot) const {
  const auto [group, b] = locate(parameter, block);
  for (const Slot& candidate : group->state().slots(b))
    if (candidate.name == slot) return group->state().view(b, candidate);
  throw std::invalid_argument("parameter '" + std::string(parameter) + "', block " +
                              std::to_string(block) + ": there is no slot '" + std::string(slot) +
                              "'");
}

}  // namespace shampoo
