// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "shampoo/checkpoint/format/safetensors_index.h"
#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {

/// What stands before the data of a safetensors file.
struct ReadHeader {
  Header header;                 ///< sealed
  std::uint64_t data_begin = 0;  ///< in the file
  std::uint64_t checksum = 0;    ///< XXH3 of the file up to data_begin
};

/// Checks every rule of the format before it gives anything out: see SafetensorsFile. Throws
/// CheckpointError without the file's name.
ReadHeader read_header(const File& file);

}  // namespace shampoo::checkpoint
