// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/facets.h"
#include "shampoo/rates.h"
#include "shampoo/step_result.h"
#include "shampoo/trace/step_clock.h"
#include "shampoo/update/block_chunks.h"

namespace shampoo {

/// Which due blocks a queued step refreshes.
enum class Refreshing : std::uint8_t {
  none,
  due,    ///< blocks due in the prepared step
  usual,  ///< recorded: those of the step that is prepared when it runs, but no more than usual
  all     ///< the same, however many they are
};

/// How much of P is in memory at a time.
enum class StoredDirection : std::uint8_t {
  all,    ///< of a chunk
  block,  ///< of each thread's block, or a part: see GroupPreconditioner::apply_and_update()
  none    ///< see Elementwise::filter_and_update()
};

/// One block in the step that is being prepared, on the host.
struct BlockStep {
  std::int64_t step = 0;         ///< step of its parameter, counted from 1
  const Rates* rates = nullptr;  ///< rates of its group
  bool due = false;              ///< true if its derived slots are recomputed
};

/// [backend] A chunk's elements in a flat slot of its virtual group; null stays null.
inline void* elements_of(void* slot, Type type, const Chunk& chunk) {
  const std::int64_t offset = chunk.first_element * static_cast<std::int64_t>(size_of(type));
  return slot == nullptr ? nullptr : static_cast<char*>(slot) + offset;
}

/// What a step works on in one chunk of the blocks. Pointers are those of its first block and of
/// its first element. Elementwise kinds do not launch kernels of their own: they join one of the
/// two passes over all elements, which the step launches when it is complete.
struct ChunkContext {
  const Chunk& place;
  ChunkClock clock;
  kernels::PassContext pass;
  std::span<const kernels::Selection> present;         ///< per stack
  std::span<const kernels::Selection> preconditioned;  ///< per stack
  double* grafting_norms;                              ///< [backend] per block: |graft(F)|^2
  double* direction_norms;  ///< [backend] per block: |P|^2, see UpdatePass; null if none is stored

  kernels::GradientPass gradients;  ///< G in, F or P out
  kernels::UpdatePass update;       ///< P in, the rank's segment out

  /// See Chunk.
  template <typename T>
  std::span<const T> of(const std::vector<T>& stacks) const {
    return place.of(stacks);
  }
  /// See elements_of().
  void* elements(void* slot) const { return elements_of(slot, pass.elements.arithmetic, place); }
};

/// What one step works on in one virtual group.
struct StepContext {
  std::span<ChunkContext> chunks;  ///< at least one
  ChunkClock clock;                ///< of what is done for all chunks together
  Refreshing refreshing;
  Statistics& statistics;
};

}  // namespace shampoo
