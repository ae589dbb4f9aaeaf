// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "shampoo/checkpoint/save.h"
#include "shampoo/checkpoint/shard.h"

namespace shampoo::checkpoint {

/// The manifest of what all ranks wrote, given the snapshot of rank 0 and a report of every rank.
Manifest manifest_of(const Snapshot::Data& snapshot, const SavePlace& place,
                     std::span<const std::string> reports);

}  // namespace shampoo::checkpoint
