// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/facets.h"
#include "tests/support/device/staging.h"

/// Arguments of elementwise and factor kernels: note() their arrays, and staged() gives the
/// arguments with the addresses of the copies.
namespace shampoo::test {

/// Number of rows of the table's tensors.
std::int64_t tensors_of(const kernels::TileTable& elements);
void note(Staging& staging, const kernels::TileTable& elements);
kernels::TileTable staged(Staging& staging, const kernels::TileTable& elements);
void note(Staging& staging, const kernels::PassContext& context);
kernels::PassContext staged(Staging& staging, const kernels::PassContext& context,
                            const kernels::TileTable& elements);
/// A slot with one element for each of the flat elements.
void note_slot(Staging& staging, const kernels::TileTable& elements, const void* slot);
void note_masters(Staging& staging, const kernels::TileTable& elements, const void* masters);
/// `offset` elements into the part of the segment that the tile's block has.
void note_segment(Staging& staging, const kernels::TileTable& elements, const void* segment,
                  const kernels::Tile& tile, std::int64_t offset);
/// With tiles that count from the flat slots.
void note_segments(Staging& staging, const kernels::TileTable& elements, const void* segments);
void note(Staging& staging, const kernels::TileTable& elements,
          std::span<const kernels::Stack> stacks, std::span<const kernels::Selection> selected);
std::vector<kernels::Stack> staged(Staging& staging, std::span<const kernels::Stack> stacks);
std::vector<kernels::Selection> staged(Staging& staging,
                                       std::span<const kernels::Selection> selected);
void note(Staging& staging, const kernels::TileTable& elements, const kernels::GradientPass& pass);
kernels::GradientPass staged(Staging& staging, const kernels::GradientPass& pass);
void note(Staging& staging, const kernels::TileTable& elements, const kernels::UpdatePass& pass);
kernels::UpdatePass staged(Staging& staging, const kernels::UpdatePass& pass);

}  // namespace shampoo::test
