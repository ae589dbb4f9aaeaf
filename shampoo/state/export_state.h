// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "shampoo/state/packed_triangle.h"
#include "shampoo/update/engine.h"

namespace shampoo {

/// The state of the blocks that this rank owns; all but progress. Waits for the backend.
StateDict export_state(Backend& backend, const Engine& engine, const StateDictOptions& options);

/// Where the numbers of a state tensor lie.
struct StateSource {
  const std::byte* data = nullptr;  ///< [backend] its elements, or its array
  SlotStorage storage = {};         ///< in that array; not read for elements
};

/// Of the tensors that export_state() gives, in their order. Good until the next step, load or
/// change of groups.
std::vector<StateSource> sources_of(const Engine& engine, const StateDictOptions& options);

/// Calls take(bytes) with the numbers of a state tensor, in the order of its layout, in parts of
/// about `part_bytes` bytes. The source must be in host memory.
void read_source(const StateTensor& tensor, const StateSource& source, std::size_t part_bytes,
                 const std::function<void(std::span<const std::byte>)>& take);

/// Puts everything in the order of names.
void sort_by_name(StateDict& dict);

}  // namespace shampoo
