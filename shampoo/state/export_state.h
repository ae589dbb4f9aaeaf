// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "shampoo/state/packed_triangle.h"
#include "shampoo/update/engine.h"

namespace shampoo {

/// Copies the state of the blocks that this rank owns, without progress. Waits for the backend.
StateDict export_state(kernels::Backend& backend, const Engine& engine,
                       const StateDictOptions& options);

/// Location of a state tensor's contents in backend memory.
struct StateSource {
  const std::byte* data = nullptr;  ///< [backend] the elements, or the array of the slot
  SlotStorage storage = {};         ///< position in the array; unused for elements
};

/// Sources of the tensors of export_state(), in the same order. Valid until the next step, load or
/// added group.
std::vector<StateSource> sources_of(const Engine& engine, const StateDictOptions& options);

/// Calls take(bytes) with the contents of a state tensor, in the order of its layout, in portions
/// of about `part_bytes` bytes. The source must be in host memory.
void read_source(const StateTensor& tensor, const StateSource& source, std::size_t part_bytes,
                 const std::function<void(std::span<const std::byte>)>& take);

/// Sorts parameters and tensors by name, and blocks by box.
void sort_by_name(StateDict& dict);

}  // namespace shampoo
