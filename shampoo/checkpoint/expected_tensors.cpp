// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/expected_tensors.h"

#include <map>
#include <set>

#include "shampoo/checkpoint/shard.h"
#include "shampoo/checkpoint_error.h"
#include "shampoo/protocol/diagnostics.h"
#include "shampoo/update/slots.h"

namespace shampoo::checkpoint {
namespace {

/// Shapes by name.
using Announced = std::map<std::string, grouping::Shape, std::less<>>;

[[noreturn]] void refuse(const std::string& what) { throw CheckpointError("manifest: " + what); }

void announce_triangles(const ParameterState& parameter, const SavedParameter& saved,
                        const SavedSlot& slot, Announced& announced) {
  for (const BlockState& block : parameter.blocks) {
    const StateTensor tensor{.parameter = parameter.name,
                             .slot = slot.name,
                             .shape = saved.merged_shape,
                             .box = block.box,
                             .layout = slot.layout,
                             .dimension = slot.dimension};
    if (slot.dimension >= static_cast<int>(block.box.extent.size()))
      refuse("values: " + in_quotes("slots/" + parameter.name) + ": " + slot.name +
             " has dimension " + std::to_string(slot.dimension) + ", blocks have " +
             std::to_string(block.box.extent.size()));
    const std::int64_t side = block.box.extent[slot.dimension];
    if (!bytes_of(Dtype::f64, grouping::Shape{side, side}))
      refuse("tensor " + in_quotes(tensor.name()) + ": its shape has no size");
    announced[std::string(state_prefix) + tensor.name()] = {tensor.count()};
  }
}

void require_roots(const std::string& parameter, const std::vector<SavedSlot>& slots,
                   bool derived) {
  std::set<int> factors, roots;
  for (const SavedSlot& slot : slots) {
    if (slot.name == "factor/" + std::to_string(slot.dimension)) factors.insert(slot.dimension);
    if (slot.name == "root/" + std::to_string(slot.dimension)) roots.insert(slot.dimension);
  }
  if (roots == (derived ? factors : std::set<int>())) return;
  refuse("values: " + in_quotes("slots/" + parameter) + ": " + std::to_string(factors.size()) +
         " factors and " + std::to_string(roots.size()) + " roots, where " + in_quotes("derived") +
         " is " + (derived ? "true" : "false"));
}

Announced announced_by(const SavedState& saved) {
  Announced announced;
  for (const ParameterState& parameter : saved.dict.parameters) {
    const SavedParameter& here = saved.parameters.at(parameter.name);
    require_roots(parameter.name, here.slots, saved.derived);
    for (const SavedSlot& slot : here.slots)
      if (slot.layout == StateLayout::elements)
        announced[std::string(state_prefix) + parameter.name + "/" + slot.name] = here.merged_shape;
      else
        announce_triangles(parameter, here, slot, announced);
  }
  return announced;
}

}  // namespace

void require_announced(const Reader& reader, const SavedState& saved) {
  Announced announced = announced_by(saved);
  for (const SavedTensor& tensor : reader.manifest().tensors) {
    if (tensor.name.starts_with(extra_prefix)) continue;
    const auto found = announced.find(tensor.name);
    if (found == announced.end())
      refuse((tensor.pieces.empty() ? "" : tensor.pieces.front().file + ": ") + "tensor " +
             in_quotes(tensor.name) + ": no slot of a parameter has this name");
    if (tensor.shape != found->second)
      refuse("tensor " + in_quotes(tensor.name) + ": must have the shape " +
             shape_text(found->second) + ", has " + shape_text(tensor.shape));
    announced.erase(found);
  }
  if (!announced.empty()) refuse("tensor " + in_quotes(announced.begin()->first) + " is missing");
}

}  // namespace shampoo::checkpoint
