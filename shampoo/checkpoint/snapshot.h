// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/dtype.h"

namespace shampoo {

/// An extra tensor, known to all ranks. One of them writes it.
struct SnapshotExtra {
  std::string name;
  Type type = Type::float32;
  std::vector<std::int64_t> shape;
  int writer = 0;
  std::vector<std::byte> bytes;  ///< on the writer
};

struct Snapshot::Data {
  StateDict state;  ///< of this rank
  std::vector<SnapshotExtra> extras;
  std::map<std::string, ExtraValue> values;
  std::uint64_t plan_hash = 0;
  int rank = 0, ranks = 1;
};

/// Throws std::invalid_argument that names the extra and the field.
void validate_extras(const Extras& extras);

/// Bytes of an extra.
std::int64_t bytes_of(const ExtraTensor& extra);

/// The rank that writes each of the tensors: each goes to the rank that has the fewest bytes so
/// far, the largest first.
std::vector<int> place_extras(const std::vector<ExtraTensor>& tensors, int ranks);

/// What must be equal on all ranks, as lines.
std::string request_text(const Snapshot::Data& data);

}  // namespace shampoo
